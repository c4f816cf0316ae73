/**
 * The format of `events.jsonl`, and who wins when several processes append to it.
 *
 * A line is one commit: a batch of events with the number of the commit that it wants to be. It counts only
 * if it ends with a newline and its number is exactly one above the last commit that counts. That rule is a
 * compare-and-append: a writer decides (which ids are new, whether its fence is current, which `seq` comes
 * next) from everything before its line, and when another writer's line slipped in between, its own does not
 * count and it decides again. No lock exists, so no dead or stopped process can hold one, and a line
 * that a zombie writes late is a line that does not count.
 */
import type { CodedError } from '../../domain/errors/coded-error.ts';
import type { NewRunEvent, RunEvent, RunEventBody } from '../../domain/run/event.ts';
import { storedEventShape } from '../../domain/run/event-shape.ts';
import { aCount, aText, listOf, objectOf, optional } from '../../domain/run/shape.ts';
import { createDamageError } from './damage.ts';

export type OutputBody = Extract<RunEventBody, { type: 'output' }>;

/** The place of the bytes of an output piece, which are the UTF-8 of its `data`. */
export interface OutputPlace {
  readonly file: string;
  readonly offset: number;
  readonly bytes: number;
}

/** An output body whose data is in a file of `output/`. */
export type PlacedOutput = Omit<OutputBody, 'data'> & { readonly place: OutputPlace };

export interface StoredEvent {
  readonly id: string;
  readonly atMs: number;
  readonly body: RunEventBody | PlacedOutput;
}

export interface Writer {
  readonly execKey: string;
  readonly fence: number;
}

export interface Commit {
  /** From 1, without gaps among the lines that count. */
  readonly commit: number;
  /** `seq` of the first event; the others follow. */
  readonly seq: number;
  /** Token of the writing process, by which a writer knows its own line. */
  readonly by: string;
  readonly writer?: Writer;
  readonly events: readonly StoredEvent[];
}

/** A line above this is damage, not a commit. */
export const MAX_LINE_BYTES = 64 * 1024 * 1024;

const NEWLINE = 0x0a;

const commitShape = objectOf({
  writer: optional(objectOf({ execKey: aText, fence: aCount })),
  events: listOf(storedEventShape),
});

export function isPlaced(body: RunEventBody | PlacedOutput): body is PlacedOutput {
  return body.type === 'output' && 'place' in body;
}

export function toRunEvent(event: NewRunEvent, seq: number): RunEvent {
  return { seq, id: event.id, atMs: event.atMs, body: event.body };
}

export function encodeCommit(commit: Commit): string {
  return `${JSON.stringify(commit)}\n`;
}

/**
 * A position in the log, up to which it knows the commits that count. Feed it chunks in order; it returns the commits
 * that count.
 */
export class CommitFold {
  readonly path: string;
  /** Byte after the last complete line. */
  offset = 0;
  commit = 0;
  seq = 0;
  #pending: Buffer[] = [];
  #pendingBytes = 0;

  constructor(path: string) {
    this.path = path;
  }

  /** Bytes after the last complete line that were fed: a torn or still growing line. */
  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  /** The place where the next chunk must begin. */
  get readOffset(): number {
    return this.offset + this.#pendingBytes;
  }

  /** `chunk` is kept only as far as it holds an unfinished line, and then copied. */
  *feed(chunk: Buffer): Generator<Commit> {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const piece = chunk.subarray(start, end);
      const line = this.#pendingBytes === 0 ? piece : Buffer.concat([...this.#pending, piece]);
      start = end + 1;
      this.#pending = [];
      this.#pendingBytes = 0;
      const commit = this.#accept(line);
      this.offset += line.length + 1;
      if (commit !== null) yield commit;
    }
    if (start < chunk.length) {
      this.#pending.push(Buffer.from(chunk.subarray(start)));
      this.#pendingBytes += chunk.length - start;
      if (this.#pendingBytes > MAX_LINE_BYTES) throw this.#damaged('a line has no end');
    }
  }

  /** Counts a line that is known to be at the end of the log. */
  advance(commit: Commit, lineBytes: number): void {
    this.offset += lineBytes;
    this.commit = commit.commit;
    this.seq = commit.seq + commit.events.length - 1;
  }

  #accept(line: Buffer): Commit | null {
    const commit = parseCommit(line);
    // A full disk or a power cut tore the line. Its writer never learned that the line counts.
    if (commit === null) return null;
    if (commit.commit <= this.commit) return null;
    if (commit.commit !== this.commit + 1 || commit.seq !== this.seq + 1) {
      throw this.#damaged(
        `commit ${commit.commit} follows commit ${this.commit}: the commits between them are missing`,
      );
    }
    const problem = commitShape(commit, 'commit');
    if (problem !== null) throw this.#damaged(problem);
    this.commit = commit.commit;
    this.seq += commit.events.length;
    return commit;
  }

  #damaged(what: string): CodedError {
    return createDamageError(this.path, `at byte ${this.offset}: ${what}`);
  }
}

function parseCommit(line: Buffer): Commit | null {
  if (line.length === 0) return null;
  let value: unknown;
  try {
    value = JSON.parse(line.toString('utf8'));
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null) return null;
  const candidate = value as Partial<Commit>;
  return Number.isSafeInteger(candidate.commit) &&
    Number.isSafeInteger(candidate.seq) &&
    typeof candidate.by === 'string' &&
    Array.isArray(candidate.events)
    ? (value as Commit)
    : null;
}
