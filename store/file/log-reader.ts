/** A run's log on its way through: a position that moves to the end of the file and can be asked again. */
import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import type { RunEvent } from '../../domain/run/event.ts';
import { CommitFold, isPlaced, toRunEvent, type OutputPlace, type StoredEvent } from './commit-log.ts';
import { damaged, runFileFailure } from './damage.ts';
import { errnoOf } from './layout.ts';
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
   * What the log holds from here to its present end; nothing while it does not exist.
   * @param onPlace hears of every piece of output that lies beside the log
   */
  async *toEnd(onPlace?: (place: OutputPlace) => void): AsyncGenerator<RunEvent> {
    const handle = await this.#opened();
    if (handle === null) return;
    const chunk = this.#chunk;
    for (;;) {
      let count: number;
      try {
        count = (await handle.read(chunk, 0, READ_BYTES, this.#fold.readOffset)).bytesRead;
      } catch (error) {
        throw runFileFailure('cannot read', this.path, error);
      }
      if (count === 0) return;
      for (const commit of this.#fold.feed(chunk.subarray(0, count))) {
        let seq = commit.seq;
        for (const event of commit.events) {
          if (onPlace !== undefined && isPlaced(event.body)) onPlace(event.body.place);
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
      // Opening what is no file must not wait for somebody at its other end.
      this.#handle = await open(this.path, constants.O_RDONLY | constants.O_NONBLOCK);
      if ((await this.#handle.stat()).isFile()) return this.#handle;
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return null;
      throw runFileFailure('cannot open', this.path, error);
    }
    throw damaged(this.path, 'it is not a file');
  }
}
