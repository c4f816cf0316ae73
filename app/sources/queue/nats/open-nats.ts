/** A queue of NATS JetStream: a durable pull consumer. Only a service with such a trigger loads this file. */
import {
  AckPolicy,
  type Consumer,
  type ConsumerInfo,
  DeliverPolicy,
  jetstream,
  jetstreamManager,
  type JetStreamManager,
  type JsMsg,
  ReplayPolicy,
} from '@nats-io/jetstream';
import {
  connect,
  type ConnectionOptions,
  credsAuthenticator,
  type NatsConnection,
  nanos,
  tokenAuthenticator,
  usernamePasswordAuthenticator,
} from '@nats-io/transport-node';
import { formatBrokerAddress, parseNatsServer } from '../../../../domain/delivery/queue-address.ts';
import type { NatsQueue } from '../../../../domain/delivery/queue-source.ts';
import { CodedError } from '../../../../domain/errors/coded-error.ts';
import {
  ACK_WAIT_MS,
  MOST_PULLED,
  MOST_PULLED_BYTES,
  MOST_UNACKNOWLEDGED,
  type OpenedQueue,
  type QueueMessage,
  type QueueTarget,
} from '../queue-port.ts';
import { findConsumerProblem } from './consumer-problem.ts';
import { toQueueError } from './nats-errors.ts';

const CONNECT_MS = 10_000;
/** A connection whose server does not answer two of these is lost. */
const PING_MS = 20_000;
/** A pull without messages is asked for again after this. */
const PULL_MS = 20_000;
/** The time for what is left to send. */
const CLOSE_MS = 2_000;
const NANOS_PER_MS = 1_000_000;

/** @throws CodedError `queue/…` */
export async function openNats(target: QueueTarget): Promise<OpenedQueue> {
  const { nats } = target;
  let connection: NatsConnection | null = null;
  try {
    connection = await connect(createOptions(target));
    const manager = await jetstreamManager(connection, { checkAPI: false });
    const info = await findConsumer(manager, target);
    const consumer = await jetstream(connection).consumers.get(nats.stream, nats.consumer);
    return new NatsReader(connection, consumer, info);
  } catch (error) {
    // The first failure is the reason.
    await connection?.close().catch(() => undefined);
    throw toQueueError(error, nats);
  }
}

function createOptions({ nats, secrets, clientName }: QueueTarget): ConnectionOptions {
  const { servers, login, tlsCa } = nats;
  const parsed = servers.map((text) => parseNatsServer(text)!);
  const isSecure = parsed.every(({ scheme }) => scheme === 'tls');
  return {
    servers: parsed.map(formatBrokerAddress),
    name: clientName,
    timeout: CONNECT_MS,
    pingInterval: PING_MS,
    maxPingOut: 2,
    // The caller connects again, with secrets that may have changed.
    reconnect: false,
    // A broker must not send this service, and its login, to servers that its operator has not allowed.
    ignoreClusterUpdates: true,
    // Null would be no TLS, and absent is TLS if the server offers it.
    ...(isSecure ? { tls: tlsCa === null ? {} : { ca: secrets[tlsCa]! } } : {}),
    ...(login === null ? {} : { authenticator: createAuthenticator(login, secrets) }),
  };
}

function createAuthenticator(
  login: NonNullable<NatsQueue['login']>,
  secrets: QueueTarget['secrets'],
): NonNullable<ConnectionOptions['authenticator']> {
  switch (login.kind) {
    case 'token':
      return tokenAuthenticator(secrets[login.token]!.trim());
    case 'user':
      return usernamePasswordAuthenticator(login.user, secrets[login.password]!);
    case 'creds':
      return createCredsAuthenticator(login.creds, secrets[login.creds]!);
  }
}

/** The client reads the credentials only when the server asks for a signature. */
function createCredsAuthenticator(name: string, creds: string): NonNullable<ConnectionOptions['authenticator']> {
  const authenticate = credsAuthenticator(new TextEncoder().encode(creds));
  return (nonce) => {
    try {
      return authenticate(nonce);
    } catch {
      throw new CodedError('queue/login-refused', `the secret ${name} is not a file of credentials of NATS`);
    }
  };
}

/** Makes the consumer if it does not exist. Two services that do this at once make the same one. */
async function findConsumer(
  { consumers }: JetStreamManager,
  { nats, ackWaitMs = ACK_WAIT_MS }: QueueTarget,
): Promise<ConsumerInfo> {
  const info = await consumers.info(nats.stream, nats.consumer).catch((error: Error) => {
    if (error.name === 'ConsumerNotFoundError' || error.message === 'consumer not found') return null;
    throw error;
  });
  const found = info ?? (await consumers.add(nats.stream, createConfig(nats, ackWaitMs)));
  const problem = findConsumerProblem(found.config, nats);
  if (problem !== null)
    throw new CodedError('queue/bad-consumer', `the consumer ${nats.consumer} of the stream ${nats.stream} ${problem}`);
  return found;
}

function createConfig(
  { consumer, subject, start }: NatsQueue,
  ackWaitMs: number,
): Parameters<JetStreamManager['consumers']['add']>[1] {
  return {
    durable_name: consumer,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ackWaitMs),
    // The service ends redelivery: the broker would drop a message without an outcome.
    max_deliver: -1,
    max_ack_pending: MOST_UNACKNOWLEDGED,
    deliver_policy: start === 'all' ? DeliverPolicy.All : DeliverPolicy.New,
    replay_policy: ReplayPolicy.Instant,
    ...(subject === null ? {} : { filter_subject: subject }),
  };
}

class NatsReader implements OpenedQueue {
  readonly extendWithinMs: number;
  readonly mostAtOnce: number;
  readonly #connection: NatsConnection;
  readonly #consumer: Consumer;
  readonly #where: Pick<NatsQueue, 'stream' | 'consumer'>;
  /** Ends the pull in progress. */
  #stop: () => void = () => undefined;
  #isStopped = false;

  constructor(connection: NatsConnection, consumer: Consumer, { config, stream_name: stream, name }: ConsumerInfo) {
    this.#connection = connection;
    this.#consumer = consumer;
    this.#where = { stream, consumer: name };
    this.extendWithinMs = (config.ack_wait ?? nanos(ACK_WAIT_MS)) / NANOS_PER_MS;
    const { max_payload: mostBytes = 1 } = connection.info ?? {};
    this.mostAtOnce = Math.max(1, Math.min(MOST_PULLED, Math.floor(MOST_PULLED_BYTES / mostBytes)));
  }

  async *pull(most: number): AsyncGenerator<QueueMessage> {
    if (this.#isStopped) return;
    try {
      const messages = await this.#consumer.fetch({ max_messages: most, expires: PULL_MS });
      this.#stop = () => messages.stop();
      if (this.#isStopped) messages.stop();
      for await (const message of messages) yield toMessage(message);
    } catch (error) {
      if (!this.#isStopped) throw toQueueError(error, this.#where);
    } finally {
      this.#stop();
      this.#stop = () => undefined;
    }
    // Without an error, a pull whose connection was lost looks like one without messages.
    if (!this.#isStopped && this.#connection.isClosed())
      throw toQueueError(await this.#connection.closed(), this.#where);
  }

  stop(): void {
    this.#isStopped = true;
    this.#stop();
  }

  async close(): Promise<void> {
    this.stop();
    // Acknowledgements that are lost now only repeat deliveries, so a server that does not answer is not waited for.
    const limit = new Promise<void>((resolve) => setTimeout(resolve, CLOSE_MS).unref());
    // A lost connection has nothing to end: the broker delivers what was not acknowledged again.
    await Promise.race([this.#connection.flush().catch(() => undefined), limit]);
    await this.#connection.close().catch(() => undefined);
  }
}

function toMessage(message: JsMsg): QueueMessage {
  const { info, subject, data } = message;
  const settle = (how: () => void): void => {
    try {
      how();
    } catch {
      // The connection is lost: the broker delivers the message again, and its delivery is known.
    }
  };
  return {
    stream: info.stream,
    sequence: info.streamSequence,
    storedAtNanos: message.timestampNanos,
    deliveries: info.deliveryCount,
    subject,
    headers: readHeaders(message),
    body: data,
    ack: () => settle(() => message.ack()),
    retryLater: (delayMs) => settle(() => message.nak(delayMs)),
    drop: (reason) => settle(() => message.term(reason)),
    extend: () => settle(() => message.working()),
  };
}

/** Names of NATS keep their case; expressions of triggers read them in lower case. */
function readHeaders({ headers }: JsMsg): ReadonlyMap<string, readonly string[]> {
  const read = new Map<string, string[]>();
  for (const [name, values] of headers ?? []) {
    const lower = name.toLowerCase();
    read.set(lower, [...(read.get(lower) ?? []), ...values]);
  }
  return read;
}
