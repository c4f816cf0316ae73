/** Events of open runs for many readers: each run has one reader of the store, however many readers follow it. */
import type { RunReader } from '../../activities/ports/run-reader.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import type { Machine } from '../machine.ts';

/** A feed keeps its latest events up to this size, for readers that are a little slower than the run. */
const KEPT_BYTES = 1024 * 1024;
/** The size of an event without its output. */
const EVENT_BYTES = 256;

export interface RunFeeds {
  /** Yields the events after a cursor, each once, until the last event of the run or the signal. */
  follow(runId: string, after: number, signal: AbortSignal): AsyncGenerator<RunEvent>;
}

/** Makes feeds of the runs in the store of the machine. */
export function openRunFeeds(context: Machine): RunFeeds {
  return createRunFeeds(async () => (await context.stores()).reader);
}

export function createRunFeeds(openReader: () => Promise<RunReader>, keptBytes: number = KEPT_BYTES): RunFeeds {
  const feeds = new Map<string, Feed>();

  const join = (runId: string, after: number, reader: RunReader): Feed => {
    const known = feeds.get(runId);
    if (known !== undefined) {
      known.readers += 1;
      return known;
    }
    const feed = new Feed(keptBytes);
    feeds.set(runId, feed);
    void feed.run(runId, after, reader).finally(() => {
      if (feeds.get(runId) === feed) feeds.delete(runId);
    });
    return feed;
  };

  const leave = (runId: string, feed: Feed): void => {
    feed.readers -= 1;
    if (feed.readers > 0) return;
    feed.stop();
    if (feeds.get(runId) === feed) feeds.delete(runId);
  };

  return {
    async *follow(runId, after, signal) {
      const reader = await openReader();
      let last = after;
      let isAhead = after > 0;
      // Events that exist already come from a reader of its own, which ends with them. The event of the cursor shows
      // that the run has it.
      for await (const event of reader.read(runId, Math.max(0, after - 1))) {
        if (signal.aborted) return;
        isAhead = false;
        if (event.seq > after) yield event;
        last = event.seq;
        if (isLast(event)) return;
      }
      // A feed that began at such a cursor would lack events for other readers.
      if (isAhead) return yield* reader.follow(runId, after, signal);
      const feed = join(runId, last, reader);
      try {
        while (!signal.aborted) {
          const event = feed.find(last + 1);
          if (event !== null) {
            yield event;
            last = event.seq;
            if (isLast(event)) return;
          } else if (last + 1 < feed.firstSeq) {
            // The feed does not have the event any longer.
            const before = last;
            for await (const missed of reader.read(runId, last)) {
              if (signal.aborted) return;
              yield missed;
              last = missed.seq;
              if (isLast(missed)) return;
            }
            // The store does not have it any longer, either: the run was deleted.
            if (last === before) return;
          } else if (feed.end !== null) {
            if ('error' in feed.end) throw feed.end.error;
            return;
          } else await feed.waitForChange(signal);
        }
      } finally {
        leave(runId, feed);
      }
    },
  };
}

function isLast({ body }: RunEvent): boolean {
  return body.type === 'run-finished';
}

/** The latest events of one run. */
class Feed {
  readers = 1;
  /** Null while more events may come. */
  end: { readonly error?: unknown } | null = null;
  readonly #mostBytes: number;
  readonly #stop = new AbortController();
  readonly #waiting = new Set<() => void>();
  /** Without gaps in `seq`. */
  #kept: RunEvent[] = [];
  #bytes = 0;
  #nextSeq = 0;

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes;
  }

  /** The `seq` of the first event that it has, or will have. */
  get firstSeq(): number {
    return this.#nextSeq - this.#kept.length;
  }

  find(seq: number): RunEvent | null {
    return this.#kept[seq - this.firstSeq] ?? null;
  }

  async run(runId: string, after: number, reader: RunReader): Promise<void> {
    this.#nextSeq = after + 1;
    try {
      for await (const event of reader.follow(runId, after, this.#stop.signal)) this.#keep(event);
      this.end = {};
    } catch (error) {
      this.end = { error };
    }
    this.#wake();
  }

  stop(): void {
    this.#stop.abort();
  }

  async waitForChange(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        this.#waiting.delete(settle);
        signal.removeEventListener('abort', settle);
        resolve();
      };
      this.#waiting.add(settle);
      signal.addEventListener('abort', settle, { once: true });
    });
  }

  #keep(event: RunEvent): void {
    this.#kept.push(event);
    this.#bytes += measureBytes(event);
    this.#nextSeq = event.seq + 1;
    let dropped = 0;
    // The latest event always stays: without it, no reader would get an event that is larger than the limit.
    while (this.#bytes > this.#mostBytes && dropped < this.#kept.length - 1)
      this.#bytes -= measureBytes(this.#kept[dropped++]!);
    if (dropped > 0) this.#kept = this.#kept.slice(dropped);
    this.#wake();
  }

  #wake(): void {
    for (const settle of this.#waiting) settle();
  }
}

function measureBytes({ body }: RunEvent): number {
  return EVENT_BYTES + (body.type === 'output' ? body.data.length : JSON.stringify(body).length);
}
