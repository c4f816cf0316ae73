/** One run's log as a reader sees it: a position that moves to the end of the file and can be asked again. */
import { open, type FileHandle } from 'node:fs/promises';
import type { RunEvent } from '../../domain/run/event.ts';
import { CommitFold, isPlaced, toRunEvent, type StoredEvent } from './commit-log.ts';
import { errnoOf, eventLogPath, outputDir, storeFailure } from './layout.ts';
import { OutputFileReader } from './output-file.ts';

const READ_BYTES = 256 * 1024;

export class RunReader {
  readonly path: string;
  readonly #output: OutputFileReader;
  readonly #fold: CommitFold;
  readonly #after: number;
  readonly #withOutput: boolean;
  readonly #chunk = Buffer.allocUnsafe(READ_BYTES);
  #handle: FileHandle | null = null;
  #finished = false;

  constructor(stateDir: string, runId: string, after: number, withOutput: boolean) {
    this.path = eventLogPath(stateDir, runId);
    this.#output = new OutputFileReader(outputDir(stateDir, runId));
    this.#fold = new CommitFold(this.path);
    this.#after = after;
    this.#withOutput = withOutput;
  }

  /** True once the terminal event was passed. */
  get finished(): boolean {
    return this.#finished;
  }

  /** What the log holds from here to its present end; nothing while it does not exist. */
  async *toEnd(): AsyncGenerator<RunEvent> {
    const handle = await this.#opened();
    if (handle === null) return;
    const chunk = this.#chunk;
    for (;;) {
      let count: number;
      try {
        count = (await handle.read(chunk, 0, READ_BYTES, this.#fold.readOffset)).bytesRead;
      } catch (error) {
        throw storeFailure('cannot read', this.path, error);
      }
      if (count === 0) return;
      for (const commit of this.#fold.feed(chunk.subarray(0, count))) {
        let seq = commit.seq;
        for (const event of commit.events) {
          const read = await this.#wanted(event, seq++);
          if (read !== null) yield read;
        }
      }
    }
  }

  async close(): Promise<void> {
    await this.#output.close();
    await this.#handle?.close();
    this.#handle = null;
  }

  async #wanted(event: StoredEvent, seq: number): Promise<RunEvent | null> {
    const { id, atMs, body } = event;
    if (body.type === 'run-finished') this.#finished = true;
    if (seq <= this.#after) return null;
    if (body.type === 'output' && !this.#withOutput) return null;
    if (!isPlaced(body)) return toRunEvent({ id, atMs, body }, seq);
    const { place, ...rest } = body;
    return toRunEvent({ id, atMs, body: { ...rest, data: await this.#output.read(place) } }, seq);
  }

  async #opened(): Promise<FileHandle | null> {
    if (this.#handle !== null) return this.#handle;
    try {
      this.#handle = await open(this.path, 'r');
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return null;
      throw storeFailure('cannot open', this.path, error);
    }
    return this.#handle;
  }
}
