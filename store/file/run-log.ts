/** One run's log for a writer: its known state, and appends to it. */
import { closeSync, constants, existsSync, fdatasync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { NewRunEvent, RunEventBody } from '../../domain/run/event.ts';
import { toStorableEvent } from '../../domain/run/event-limits.ts';
import {
  CommitFold,
  encodeCommit,
  isPlaced,
  type Commit,
  type OutputBody,
  type PlacedOutput,
  type StoredEvent,
  type Writer,
} from './commit-log.ts';
import { createDamageError, runFileFailure } from './damage.ts';
import type { Durability } from './durability.ts';
import { syncDir, type DurableFolders } from './layout.ts';
import { OutputFileWriter } from './output-file.ts';
import { eventLogPath, makeRunFolder, outputDir, recordsDir } from './run-folder.ts';
import { runDir } from '../state-folder.ts';
import { SharedSync } from './shared-sync.ts';

const sync = promisify(fdatasync);
const READ_BYTES = 256 * 1024;
/** The log itself contains small pieces, until they would make the log long. */
const INLINE_PIECE_BYTES = 512;
const INLINE_TOTAL_BYTES = 64 * 1024;
/** Each lost try is another process's success; this many in a row is not contention but a defect. */
const MAX_TRIES = 10_000;

/** Callers rely on these events and on all events before them: they must survive the failures of the durability. */
const DURABLE: Readonly<Record<Durability, ReadonlySet<RunEventBody['type']>>> = {
  // The first and the last event of a run, too: a run cannot continue without the first, and after the last no process
  // restores the log.
  process: new Set(['run-admitted', 'run-finished']),
  power: new Set(['run-admitted', 'stage-finished', 'stage-answered', 'run-finished']),
};

/** True if `settle` must follow an append of these events, and the output before them must be on the disk first. */
export function isRelied(durability: Durability, events: readonly NewRunEvent[]): boolean {
  return events.some(({ body }) => DURABLE[durability].has(body.type));
}

export class RunLog {
  readonly #path: string;
  readonly #dir: string;
  readonly #admissionPath: string;
  readonly #token: string;
  readonly #fd: number;
  readonly #shared = new SharedSync(() => this.#sync());
  readonly #fold: CommitFold;
  readonly #output: OutputFileWriter;
  readonly #ids = new Set<string>();
  readonly #fences = new Map<string, number>();
  readonly #cursors = new Map<string, number>();
  readonly #chunk = Buffer.allocUnsafe(READ_BYTES);
  #inlineBytes = 0;
  #nameDurable = false;
  #lostLine = false;

  /** @throws CodedError `store/io`, `store/damaged` */
  static async open(stateDir: string, folders: DurableFolders, runId: string, token: string): Promise<RunLog> {
    const path = eventLogPath(stateDir, runId);
    try {
      await makeRunFolder(stateDir, folders, runId);
      await folders.settle(runDir(stateDir, runId));
      const fd = openSync(
        path,
        constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK,
        0o600,
      );
      if (fstatSync(fd).isFile()) return new RunLog(stateDir, runId, token, fd);
      closeSync(fd);
    } catch (error) {
      throw runFileFailure('cannot open', path, error);
    }
    throw createDamageError(path, 'it is not a file');
  }

  private constructor(stateDir: string, runId: string, token: string, fd: number) {
    this.#path = eventLogPath(stateDir, runId);
    this.#dir = runDir(stateDir, runId);
    this.#admissionPath = join(recordsDir(stateDir, runId), 'admission.json');
    this.#token = token;
    this.#fd = fd;
    this.#fold = new CommitFold(this.#path);
    this.#output = new OutputFileWriter(outputDir(stateDir, runId), token);
  }

  /**
   * Appends new events. Runs to its end without yielding, so that appends of one process never interleave. A small
   * write into the page cache costs a few microseconds, and a trip to the thread pool costs a hundred.
   */
  append(events: readonly NewRunEvent[], writer: Writer | undefined): number {
    // Outside of the `try`: a defect of the writer is not a failure of the disk, and a retry does not help.
    const storable = events.map(toStorableEvent);
    try {
      return this.#append(storable, writer);
    } catch (error) {
      throw runFileFailure('cannot append to', this.#path, error);
    }
  }

  /** Appended output is in a file of its own. */
  settleOutput(): Promise<void> {
    return this.#output.sync();
  }

  /** Waits for the disk, once for all callers that wait for this log. */
  settle(): Promise<void> {
    return this.#shared.run();
  }

  async #sync(): Promise<void> {
    try {
      await sync(this.#fd);
      if (this.#nameDurable) return;
      await syncDir(this.#dir);
      this.#nameDurable = true;
    } catch (error) {
      throw runFileFailure('cannot sync', this.#path, error);
    }
  }

  /** Null once the run was pruned. */
  outputCursor(execKey: string, stream: 'stdout' | 'stderr'): number | null {
    return this.#upToDate() ? (this.#cursors.get(cursorKey(execKey, stream)) ?? 0) : null;
  }

  /** Whether the run has an event with this id; output is not known by id. Null once the run was pruned. */
  has(id: string): boolean | null {
    return this.#upToDate() ? this.#ids.has(id) : null;
  }

  /** False once the run was pruned. */
  #upToDate(): boolean {
    try {
      const facts = fstatSync(this.#fd);
      if (facts.nlink === 0) return false;
      this.#readOn(facts.size);
      return true;
    } catch (error) {
      throw runFileFailure('cannot read', this.#path, error);
    }
  }

  close(): void {
    this.#output.close();
    closeSync(this.#fd);
  }

  #append(events: readonly NewRunEvent[], writer: Writer | undefined): number {
    const placed = new Map<NewRunEvent, StoredEvent>();
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const sizeBefore = this.#catchUp();
      this.#checkFence(writer);
      this.#checkBeginning(events);
      const fresh = this.#fresh(events);
      const raisesFence = writer !== undefined && writer.fence > (this.#fences.get(writer.execKey) ?? -1);
      if (fresh.length === 0 && !raisesFence) return 0;
      const commit: Commit = {
        commit: this.#fold.commit + 1,
        seq: this.#fold.seq + 1,
        by: this.#token,
        ...(writer === undefined ? {} : { writer: { execKey: writer.execKey, fence: writer.fence } }),
        events: fresh.map((event) => this.#stored(event, placed)),
      };
      if (this.#write(commit, sizeBefore)) return fresh.length;
    }
    throw new CodedError('store/io', `${this.#path}: ${MAX_TRIES} appends in a row lost against other writers`);
  }

  /** True when the line counts. */
  #write(commit: Commit, sizeBefore: number): boolean {
    const line = Buffer.from(encodeCommit(commit), 'utf8');
    // A torn line is at the end: without a line feed first, this line would become part of it.
    const torn = this.#fold.pendingBytes > 0;
    const bytes = torn ? Buffer.concat([Buffer.from('\n'), line]) : line;
    const written = writeSync(this.#fd, bytes);
    if (written !== bytes.length) {
      const cause = Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
      throw new CodedError(
        'store/io',
        `${this.#path}: only ${written} of ${bytes.length} bytes fit; the disk is full`,
        { cause },
      );
    }
    if (!torn && fstatSync(this.#fd).size === sizeBefore + bytes.length) {
      // No other process wrote since the decision, so the line is in its intended place.
      this.#fold.advance(commit, line.length);
      this.#learn(commit);
      return true;
    }
    this.#lostLine = true;
    this.#catchUp((seen) => {
      if (seen.by === this.#token && seen.commit === commit.commit) this.#lostLine = false;
    });
    return !this.#lostLine;
  }

  /** Reads the commits of other writers; returns the size of the log that is known now. */
  #catchUp(onCommit?: (commit: Commit) => void): number {
    const facts = fstatSync(this.#fd);
    if (facts.nlink === 0) throw new CodedError('store/io', `${this.#path} was removed; the run was pruned`);
    this.#readOn(facts.size, onCommit);
    return facts.size;
  }

  #readOn(size: number, onCommit?: (commit: Commit) => void): void {
    if (size < this.#fold.readOffset)
      throw createDamageError(this.#path, 'it became shorter; something other than Voidbox changed it');
    while (this.#fold.readOffset < size) {
      const wanted = Math.min(READ_BYTES, size - this.#fold.readOffset);
      const count = readSync(this.#fd, this.#chunk, 0, wanted, this.#fold.readOffset);
      if (count === 0) break;
      for (const commit of this.#fold.feed(this.#chunk.subarray(0, count))) {
        this.#learn(commit);
        onCommit?.(commit);
      }
    }
  }

  #learn(commit: Commit): void {
    if (commit.writer !== undefined) {
      const known = this.#fences.get(commit.writer.execKey) ?? -1;
      if (commit.writer.fence > known) this.#fences.set(commit.writer.execKey, commit.writer.fence);
    }
    for (const { id, body } of commit.events) {
      if (body.type !== 'output') {
        this.#ids.add(id);
        continue;
      }
      const key = cursorKey(body.execKey, body.stream);
      this.#cursors.set(key, Math.max(this.#cursors.get(key) ?? 0, body.to));
      if (!isPlaced(body)) this.#inlineBytes += body.data.length;
    }
  }

  /**
   * An admitted run has events. Without this check, a run with an empty log would begin again although its commands
   * have run.
   */
  #checkBeginning(events: readonly NewRunEvent[]): void {
    if (this.#fold.commit > 0 || events.length === 0 || events.some(({ body }) => body.type === 'run-admitted')) return;
    if (existsSync(this.#admissionPath)) throw createDamageError(this.#path, 'it is empty, and the run was admitted');
  }

  #checkFence(writer: Writer | undefined): void {
    if (writer === undefined) return;
    const known = this.#fences.get(writer.execKey) ?? -1;
    if (writer.fence < known) {
      throw new CodedError(
        'fence/stale',
        `a newer attempt (fence ${known}) continues ${writer.execKey}; this one (fence ${writer.fence}) writes nothing more`,
      );
    }
  }

  #fresh(events: readonly NewRunEvent[]): NewRunEvent[] {
    const ids = new Set<string>();
    const cursors = new Map<string, number>();
    return events.filter((event) => {
      if (event.body.type === 'output') return this.#isFreshOutput(event.body, cursors);
      if (this.#ids.has(event.id) || ids.has(event.id)) return false;
      ids.add(event.id);
      return true;
    });
  }

  /**
   * The offset gives output its order and identity. So a cursor for each stream replaces a set of ids, and needs no
   * memory for them.
   */
  #isFreshOutput(body: OutputBody, batch: Map<string, number>): boolean {
    const key = cursorKey(body.execKey, body.stream);
    const cursor = batch.get(key) ?? this.#cursors.get(key) ?? 0;
    if (body.to <= cursor) return false;
    if (body.from < cursor) {
      throw new Error(
        `output ${body.from}..${body.to} of ${body.execKey} ${body.stream} overlaps what is stored up to ${cursor}: continue from outputCursor`,
      );
    }
    batch.set(key, body.to);
    return true;
  }

  #stored(event: NewRunEvent, placed: Map<NewRunEvent, StoredEvent>): StoredEvent {
    const { id, atMs, body } = event;
    if (body.type !== 'output') return { id, atMs, body };
    const earlier = placed.get(event);
    if (earlier !== undefined) return earlier;
    const inline = body.data.length <= INLINE_PIECE_BYTES && this.#inlineBytes + body.data.length <= INLINE_TOTAL_BYTES;
    const stored: StoredEvent = { id, atMs, body: inline ? body : this.#place(body) };
    placed.set(event, stored);
    return stored;
  }

  #place(body: OutputBody): PlacedOutput {
    const { data, ...rest } = body;
    return { ...rest, place: this.#output.append(data) };
  }
}

function cursorKey(execKey: string, stream: string): string {
  return `${stream} ${execKey}`;
}
