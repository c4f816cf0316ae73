/** A run's log on its way through: a position that moves to the end of the file and can be asked again. */
import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import type { RunEvent } from '../../domain/run/event.ts';
import { type Commit, CommitFold, isPlaced, toRunEvent, type OutputPlace, type StoredEvent } from './commit-log.ts';
import { createDamageError, runFileFailure } from './damage.ts';
import { errnoOf } from '../../files/errno.ts';
import { OutputFileReader } from './output-file.ts';
import { eventLogPath, outputDir } from './run-folder.ts';

const READ_BYTES = 256 * 1024;

export class LogReader {
  readonly path: string;
  readonly outputDir: string;
  readonly #output: OutputFileReader;
  readonly #fold: CommitFold;
  readonly #after: number;
  readonly #withOutput: boolean;
  readonly #chunk = Buffer.allocUnsafe(READ_BYTES);
  #handle: FileHandle | null = null;
  #finished = false;

  constructor(stateDir: string, runId: string, after: number, withOutput: boolean) {
    this.path = eventLogPath(stateDir, runId);
    this.outputDir = outputDir(stateDir, runId);
    this.#output = new OutputFileReader(this.outputDir);
    this.#fold = new CommitFold(this.path);
    this.#after = after;
    this.#withOutput = withOutput;
  }

  /** True once the terminal event was passed. */
  get finished(): boolean {
    return this.#finished;
  }

  /** Number of the last event that was read. */
  get seq(): number {
    return this.#fold.seq;
  }

  /**
   * Yields the events from here to the present end of the log; no event while the log does not exist.
   * @param onPlace  called for every piece of output that is stored outside of the log
   */
  toEnd(onPlace?: (place: OutputPlace) => void): AsyncIterableIterator<RunEvent> {
    return new EventsToEnd({
      commits: () => this.#commits(),
      event: (stored, seq) => {
        if (onPlace !== undefined && isPlaced(stored.body)) onPlace(stored.body.place);
        return this.#wanted(stored, seq);
      },
      over: () => Promise.resolve(),
    });
  }

  /** Like `toEnd`, but closes the reader afterwards. */
  toEndAndClose(): AsyncIterableIterator<RunEvent> {
    return new EventsToEnd({
      commits: () => this.#commits(),
      event: (stored, seq) => this.#wanted(stored, seq),
      over: () => this.close(),
    });
  }

  async close(): Promise<void> {
    await this.#output.close();
    await this.#handle?.close();
    this.#handle = null;
  }

  /** Reads the commits of the next piece of the log; null at its present end. */
  async #commits(): Promise<Generator<Commit> | null> {
    const handle = await this.#opened();
    if (handle === null) return null;
    try {
      const { bytesRead } = await handle.read(this.#chunk, 0, READ_BYTES, this.#fold.readOffset);
      return bytesRead === 0 ? null : this.#fold.feed(this.#chunk.subarray(0, bytesRead));
    } catch (error) {
      throw runFileFailure('cannot read', this.path, error);
    }
  }

  /** Returns a promise only if the output is stored outside of the log. */
  #wanted(event: StoredEvent, seq: number): RunEvent | Promise<RunEvent> | null {
    const { id, atMs, body } = event;
    if (body.type === 'run-finished') this.#finished = true;
    if (seq <= this.#after) return null;
    if (body.type === 'output' && !this.#withOutput) return null;
    if (!isPlaced(body)) return toRunEvent({ id, atMs, body }, seq);
    const { place, ...rest } = body;
    return this.#output.read(place).then((data) => toRunEvent({ id, atMs, body: { ...rest, data } }, seq));
  }

  async #opened(): Promise<FileHandle | null> {
    if (this.#handle !== null) return this.#handle;
    try {
      // Without `O_NONBLOCK`, opening a pipe would wait for a process at its other end.
      this.#handle = await open(this.path, constants.O_RDONLY | constants.O_NONBLOCK);
      if ((await this.#handle.stat()).isFile()) return this.#handle;
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return null;
      throw runFileFailure('cannot open', this.path, error);
    }
    throw createDamageError(this.path, 'it is not a file');
  }
}

interface EventSource {
  /** Null at the present end. */
  commits(): Promise<Generator<Commit> | null>;
  /** Null for an event that the reader does not want. */
  event(stored: StoredEvent, seq: number): RunEvent | Promise<RunEvent> | null;
  /** Once, when nothing more is read. */
  over(): Promise<void>;
}

/**
 * Yields one event after another. It is not a generator, because each promise costs more than reading an event from a
 * line. A nested generator makes eight promises for each event, and all 25,000 events of a run with 5,000 items are
 * read twice before it ends.
 */
class EventsToEnd implements AsyncIterableIterator<RunEvent> {
  readonly #source: EventSource;
  #commits: Generator<Commit> | null = null;
  #events: readonly StoredEvent[] = [];
  #at = 0;
  #seq = 0;
  #isOver = false;

  constructor(source: EventSource) {
    this.#source = source;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<RunEvent, undefined>> {
    if (this.#isOver) return Promise.resolve({ done: true, value: undefined });
    try {
      const event = this.#nextAtHand();
      if (event === null) return this.#further();
      if (!(event instanceof Promise)) return Promise.resolve({ done: false, value: event });
      return event.then(
        (value) => ({ done: false, value }),
        (error: unknown) => this.#failed(error),
      );
    } catch (error) {
      return this.#failed(error);
    }
  }

  async return(): Promise<IteratorResult<RunEvent, undefined>> {
    await this.#end();
    return { done: true, value: undefined };
  }

  /** Returns the next event of the commits that are already read. */
  #nextAtHand(): RunEvent | Promise<RunEvent> | null {
    for (;;) {
      while (this.#at < this.#events.length) {
        const event = this.#source.event(this.#events[this.#at++]!, this.#seq++);
        if (event !== null) return event;
      }
      const commit = this.#commits?.next();
      if (commit === undefined || commit.done === true) return null;
      this.#events = commit.value.events;
      this.#at = 0;
      this.#seq = commit.value.seq;
    }
  }

  async #further(): Promise<IteratorResult<RunEvent, undefined>> {
    try {
      this.#commits = await this.#source.commits();
    } catch (error) {
      return this.#failed(error);
    }
    return this.#commits === null ? this.return() : this.next();
  }

  async #failed(error: unknown): Promise<never> {
    await this.#end();
    throw error;
  }

  async #end(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#commits?.return(undefined);
    await this.#source.over();
  }
}
