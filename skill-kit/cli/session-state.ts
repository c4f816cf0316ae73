/**
 * Stores a session between two calls. `<base>.state` holds the engine's state without its records, and the last result
 * that the client got. It is replaced as a whole, by rename. `<base>.records-<n>.jsonl` holds the records. Only
 * callbacks that ask for the whole history read them, so that the thousandth advance reads as much as the first.
 *
 * The state is written first, then the result's line in the session file. After a crash in between, the state knows
 * which line is missing. Nothing is synced to disk, because a session survives processes, not power cuts.
 */
import { closeSync, constants, readFileSync, readSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Handshake } from '../../domain/step-machine/definition.ts';
import { EMPTY_LOG, flush, recordsOf, type StepRecord } from '../../domain/step-machine/records.ts';
import type { SessionState } from '../../domain/step-machine/state.ts';
import { openSessionFile } from './open-session-file.ts';
import type { SessionOutputMode } from './session-lines.ts';
import type { LogPlace } from './session-log.ts';
import { writeFully } from './write-fully.ts';

const FORMAT = 1;

export interface StoredReply {
  /** The result's line in the session file, with its newline. */
  readonly line: string;
  /** Goes to stderr and makes the exit code 1. */
  readonly failure: string | null;
}

export interface StoredSession {
  readonly format: typeof FORMAT;
  /** Raised by everything that changes the session: what claims are for. */
  readonly number: number;
  /** Which claim on that number wrote it. */
  readonly claim: number;
  readonly state: SessionState;
  readonly handshake: Handshake;
  readonly outputMode: SessionOutputMode;
  /** Up to here the session file is accounted for. */
  readonly place: LogPlace;
  /** The line whose output has been answered last. */
  readonly answered: number | null;
  readonly reply: StoredReply;
  /** An action failed: the same output may be tried again. */
  readonly mayRetry: boolean;
  /** Set when an action was started: the line whose output is being worked on, and the request that waits for it. */
  readonly underWay: { readonly line: number | null; readonly request: string | null } | null;
  /** The bytes of the records' file that count; later bytes do not. */
  readonly recordsBytes: number;
}

export type StoredContent = Omit<StoredSession, 'format' | 'recordsBytes'>;

/** Null if there is no state. @throws {Error} if it cannot be understood */
export function readStored(base: string): StoredSession | null {
  const path = `${base}.state`;
  const text = readText(path);
  if (text === null) return null;
  const createDamageError = (how: string, cause?: unknown): Error =>
    new Error(`${path} is damaged (${how}). Start a new session with --session new.`, { cause });
  let stored: unknown;
  try {
    stored = JSON.parse(text);
  } catch (cause) {
    throw createDamageError((cause as Error).message, cause);
  }
  if (typeof stored !== 'object' || stored === null || !('format' in stored))
    throw createDamageError('it has no format');
  if (stored.format !== FORMAT) {
    throw new Error(
      `${path} has format ${String(stored.format)}, and this skill reads ${FORMAT}. Continue with the skill that started the session, or start a new one.`,
    );
  }
  if (isStored(stored)) return stored;
  throw createDamageError('parts of it are missing');
}

/** It is written and replaced as a whole, so that only another hand leaves out a part. */
function isStored(stored: object): stored is StoredSession {
  const parts: Partial<Record<keyof StoredSession, unknown>> = stored;
  const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null;
  return (
    typeof parts.number === 'number' &&
    isObject(parts.place) &&
    isObject(parts.reply) &&
    isObject(parts.state) &&
    'records' in (parts.state as object)
  );
}

function readText(path: string): string | null {
  let fd: number;
  try {
    fd = openSessionFile(path, constants.O_RDONLY);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw cause;
  }
  try {
    return readFileSync(fd, 'utf8');
  } finally {
    closeSync(fd);
  }
}

/** Writes it as the session's state from now on; its records move to the records' file. @returns what was written */
export function writeStored(base: string, content: StoredContent, recordsBytes: number): StoredSession {
  const { state, number } = content;
  const { records } = state;
  const file = records.flushedRef ?? `${basename(base)}.records-${number}.jsonl`;
  const from = records.flushedRef === null ? 0 : recordsBytes;
  const bytes = records.length === 0 ? from : writeRecords(join(dirname(base), file), [...recordsOf(records)], from);
  const flushed = records.length === 0 ? records : flush(records, file);
  const stored: StoredSession = {
    format: FORMAT,
    ...content,
    state: { ...state, records: flushed },
    recordsBytes: bytes,
  };
  replace(`${base}.state`, JSON.stringify(stored));
  return stored;
}

/** Only its claim's owner writes, so a file that is left over is a dead owner's. */
function replace(path: string, text: string): void {
  const { O_WRONLY, O_CREAT, O_EXCL } = constants;
  const next = `${path}.next`;
  rmSync(next, { force: true });
  const fd = openSessionFile(next, O_WRONLY | O_CREAT | O_EXCL);
  try {
    writeFully(fd, path, text, 0);
  } catch (cause) {
    rmSync(next, { force: true });
    throw cause;
  } finally {
    closeSync(fd);
  }
  renameSync(next, path);
}

/**
 * Overwrites the bytes of a writer that died before its state counted: they are equal as far as they go, or come after
 * the bytes that count.
 */
function writeRecords(path: string, records: readonly StepRecord[], at: number): number {
  const fd = openSessionFile(path, constants.O_WRONLY | constants.O_CREAT);
  try {
    return at + writeFully(fd, path, records.map((record) => `${JSON.stringify(record)}\n`).join(''), at);
  } finally {
    closeSync(fd);
  }
}

/** The records that are not in the state, oldest first. */
export function readRecords(base: string, { state, recordsBytes }: StoredSession): readonly StepRecord[] {
  const { flushedRef } = state.records;
  if (flushedRef === null || recordsBytes === 0) return [];
  const fd = openSessionFile(join(dirname(base), basename(flushedRef)), constants.O_RDONLY);
  try {
    const bytes = Buffer.alloc(recordsBytes);
    for (let read = 0; read < recordsBytes;) {
      const got = readSync(fd, bytes, read, recordsBytes - read, read);
      if (got === 0)
        throw new Error(`${flushedRef} is shorter than its session says. Start a new session with --session new.`);
      read += got;
    }
    const lines = bytes.toString('utf8').split('\n');
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as StepRecord);
  } finally {
    closeSync(fd);
  }
}

/** The state with all its records in it again, to be written to a new file of records. */
export function withRecords(base: string, stored: StoredSession): SessionState {
  const items = readRecords(base, stored);
  return { ...stored.state, records: { ...EMPTY_LOG, length: items.length, items } };
}
