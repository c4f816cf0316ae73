/** A broker in memory, for tests of what reads queues. It behaves as the conformance tests of queues demand. */
import {
  ACK_WAIT_MS,
  MOST_PULLED,
  type OpenedQueue,
  type QueueMessage,
  type QueueTarget,
} from '../../../app/sources/queue/queue-port.ts';
import { CodedError } from '../../../domain/errors/coded-error.ts';

interface StoredMessage {
  readonly sequence: number;
  readonly storedAtNanos: bigint;
  readonly subject: string;
  readonly headers: ReadonlyMap<string, readonly string[]>;
  readonly body: Uint8Array;
}

interface Pending {
  deliveries: number;
  /** It is delivered again at this time. */
  dueAtMs: number;
}

interface FakeConsumer {
  readonly subject: string | null;
  readonly ackWaitMs: number;
  next: number;
  readonly pending: Map<number, Pending>;
}

const LOOK_MS = 5;

export class FakeBroker {
  readonly server = 'nats://127.0.0.1:4222';
  /** A login must be this token. Null: none is asked for. */
  token: string | null = null;
  /** The most messages of one `pull`. */
  mostAtOnce = MOST_PULLED;
  readonly #streams = new Map<string, StoredMessage[]>();
  readonly #consumers = new Map<string, FakeConsumer>();
  readonly #opened = new Set<FakeQueue>();
  #isUp = true;

  addStream(name: string): void {
    this.#streams.set(name, []);
  }

  publish(
    stream: string,
    subject: string,
    body: Uint8Array | string,
    headers: Readonly<Record<string, string>> = {},
  ): number {
    const messages = this.#streams.get(stream)!;
    const sequence = messages.length + 1;
    messages.push({
      sequence,
      storedAtNanos: BigInt(Date.now()) * 1_000_000n + BigInt(sequence),
      subject,
      headers: new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), [value]])),
      body: typeof body === 'string' ? Buffer.from(body) : body,
    });
    return sequence;
  }

  readonly open = (target: QueueTarget): Promise<OpenedQueue> => {
    const { nats, secrets, ackWaitMs = ACK_WAIT_MS } = target;
    if (!this.#isUp) return Promise.reject(new CodedError('queue/unreachable', 'connection refused'));
    const { login } = nats;
    const token = login?.kind === 'token' ? secrets[login.token] : null;
    if (this.token !== null && token !== this.token)
      return Promise.reject(new CodedError('queue/login-refused', `Authorization Violation of ${token}`));
    const messages = this.#streams.get(nats.stream);
    if (messages === undefined) return Promise.reject(new CodedError('queue/no-stream', 'stream not found'));
    const key = `${nats.stream}/${nats.consumer}`;
    const consumer = this.#consumers.get(key) ?? {
      subject: nats.subject,
      ackWaitMs,
      next: nats.start === 'all' ? 1 : messages.length + 1,
      pending: new Map<number, Pending>(),
    };
    if (consumer.subject !== nats.subject)
      return Promise.reject(new CodedError('queue/bad-consumer', 'the consumer gets other subjects'));
    this.#consumers.set(key, consumer);
    const queue = new FakeQueue(nats.stream, messages, consumer, this.mostAtOnce);
    this.#opened.add(queue);
    return Promise.resolve(queue);
  };

  /** Ends all connections. Messages and consumers stay. */
  kill(): void {
    this.#isUp = false;
    for (const queue of this.#opened) queue.lose();
    this.#opened.clear();
  }

  start(): void {
    this.#isUp = true;
  }

  countUnsettled(stream: string, name: string): number {
    const consumer = this.#consumers.get(`${stream}/${name}`);
    if (consumer === undefined) return 0;
    const undelivered = this.#streams
      .get(stream)!
      .filter(({ sequence, subject }) => sequence >= consumer.next && isSubjectOf(subject, consumer.subject));
    return undelivered.length + consumer.pending.size;
  }
}

class FakeQueue implements OpenedQueue {
  readonly extendWithinMs: number;
  readonly mostAtOnce: number;
  readonly #stream: string;
  readonly #messages: readonly StoredMessage[];
  readonly #consumer: FakeConsumer;
  #isLost = false;
  #isStopped = false;

  constructor(stream: string, messages: readonly StoredMessage[], consumer: FakeConsumer, mostAtOnce: number) {
    this.#stream = stream;
    this.#messages = messages;
    this.#consumer = consumer;
    this.extendWithinMs = consumer.ackWaitMs;
    this.mostAtOnce = mostAtOnce;
  }

  lose(): void {
    this.#isLost = true;
  }

  async *pull(most: number): AsyncGenerator<QueueMessage> {
    for (let got = 0; got < most;) {
      if (this.#isLost) throw new CodedError('queue/unreachable', 'the server has ended the connection');
      if (this.#isStopped) return;
      const message = this.#take();
      if (message === null) {
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
        continue;
      }
      got += 1;
      yield message;
    }
  }

  stop(): void {
    this.#isStopped = true;
  }

  close(): Promise<void> {
    this.#isStopped = true;
    return Promise.resolve();
  }

  #take(): QueueMessage | null {
    const { pending, ackWaitMs, subject } = this.#consumer;
    const now = Date.now();
    for (const [sequence, each] of pending)
      if (each.dueAtMs <= now) {
        each.deliveries += 1;
        each.dueAtMs = now + ackWaitMs;
        return this.#toMessage(this.#messages[sequence - 1]!, each.deliveries);
      }
    for (;;) {
      const message = this.#messages[this.#consumer.next - 1];
      if (message === undefined) return null;
      this.#consumer.next += 1;
      if (!isSubjectOf(message.subject, subject)) continue;
      pending.set(message.sequence, { deliveries: 1, dueAtMs: now + ackWaitMs });
      return this.#toMessage(message, 1);
    }
  }

  #toMessage(message: StoredMessage, deliveries: number): QueueMessage {
    const { pending, ackWaitMs } = this.#consumer;
    let isDone = false;
    const settle = (how: () => void): void => {
      if (!isDone && !this.#isLost) how();
      isDone = true;
    };
    return {
      ...message,
      stream: this.#stream,
      deliveries,
      ack: () => settle(() => pending.delete(message.sequence)),
      drop: () => settle(() => pending.delete(message.sequence)),
      retryLater: (delayMs) => settle(() => this.#setDue(message.sequence, delayMs)),
      extend: () => {
        if (!isDone && !this.#isLost) this.#setDue(message.sequence, ackWaitMs);
      },
    };
  }

  #setDue(sequence: number, delayMs: number): void {
    const each = this.#consumer.pending.get(sequence);
    if (each !== undefined) each.dueAtMs = Date.now() + delayMs;
  }
}

/** @param filter  with the wildcards of NATS */
function isSubjectOf(subject: string, filter: string | null): boolean {
  if (filter === null) return true;
  const words = subject.split('.');
  const parts = filter.split('.');
  return (
    parts.every((part, at) => part === '>' || (words[at] !== undefined && (part === '*' || part === words[at]))) &&
    (parts.at(-1) === '>' ? words.length >= parts.length : words.length === parts.length)
  );
}
