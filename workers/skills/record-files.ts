/** Records that sessions carry no more: files that name the one before them. */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SessionRecordStore } from '../../activities/step-ports.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { StepRecord } from '../../domain/step-machine/records.ts';

interface RecordFile {
  readonly previous: string | null;
  readonly records: readonly StepRecord[];
}

/** Of processes that serve many sessions, the records of some. */
const MOST_CACHED = 32;

export function sessionRecordsDir(stateDir: string, session: string): string {
  return join(stateDir, 'sessions', session);
}

export function createRecordFiles(stateDir: string): SessionRecordStore {
  return {
    write({ session, previous, records }) {
      const dir = sessionRecordsDir(stateDir, session);
      const text = JSON.stringify({ previous, records } satisfies RecordFile);
      const ref = createHash('sha256').update(text).digest('hex');
      mkdirSync(dir, { recursive: true, mode: 0o700 });
      const file = fileOf(dir, ref);
      writeFileSync(`${file}.${process.pid}`, text, { mode: 0o600 });
      renameSync(`${file}.${process.pid}`, file);
      return Promise.resolve(ref);
    },
    read: (session, ref) => Promise.resolve(readRecords(sessionRecordsDir(stateDir, session), ref)),
  };
}

const cache = new Map<string, readonly StepRecord[]>();

/** All records up to those that `ref` names, oldest first. What was read before is not read again. */
export function readRecords(dir: string, ref: string): readonly StepRecord[] {
  const missing: { readonly name: string; readonly records: readonly StepRecord[] }[] = [];
  let known: readonly StepRecord[] = [];
  for (let at: string | null = ref; at !== null;) {
    const name = fileOf(dir, at);
    const cached = cache.get(name);
    if (cached !== undefined) {
      known = cached;
      cache.delete(name);
      break;
    }
    const { previous, records } = readFile(name);
    missing.push({ name, records });
    at = previous;
  }
  const all = missing.length === 0 ? known : [...known, ...missing.reverse().flatMap(({ records }) => records)];
  cache.set(fileOf(dir, ref), all);
  for (const oldest of cache.keys()) {
    if (cache.size <= MOST_CACHED) break;
    cache.delete(oldest);
  }
  return all;
}

function readFile(file: string): RecordFile {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as RecordFile;
  } catch (error) {
    throw new CodedError('store/io', `earlier records of the session are not on this host (${file}): ${(error as Error).message}`, { cause: error });
  }
}

function fileOf(dir: string, ref: string): string {
  return join(dir, `records-${ref}.json`);
}
