/** Records that sessions carry no more: files that name the one before them. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SessionRecordStore } from '../../activities/ports/sessions.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { StepRecord } from '../../domain/step-machine/records.ts';
import { isSessionId } from '../../domain/step-machine/session-id.ts';
import { isSha256 } from '../../domain/units/sha256.ts';
import { writeJson } from '../file/json-file.ts';
import { DurableFolders } from '../file/layout.ts';
import { removeHalfFilesOf } from '../half-files.ts';
import { markUse } from '../server-mark.ts';
import { quote } from '../../domain/units/quote.ts';

interface RecordFile {
  readonly previous: string | null;
  readonly records: readonly StepRecord[];
}

/** The limit of sessions whose records are cached, because a process may serve many sessions. */
const MOST_CACHED = 32;

/** @throws CodedError `session/foreign` for a text that is not the id of a session */
export function sessionRecordsDir(stateDir: string, session: string): string {
  if (!isSessionId(session)) throw new CodedError('session/foreign', `${quote(session)} is not the id of a session`);
  return join(stateDir, 'sessions', session);
}

/**
 * `serverId`: the server of the sessions. The workflow forgets written records, so they are on the disk when `write`
 * has ended.
 */
export function createRecordFiles(stateDir: string, serverId: string): SessionRecordStore {
  const folders = new DurableFolders(stateDir);
  return {
    async write({ session, previous, records }) {
      const dir = sessionRecordsDir(stateDir, session);
      const content: RecordFile = { previous, records };
      const ref = createHash('sha256').update(JSON.stringify(content)).digest('hex');
      const file = fileOf(dir, ref);
      await writeJson(folders, file, content);
      // Half files of a killed worker: the session's next worker writes the same records.
      removeHalfFilesOf(file);
      markUse(dir, serverId);
      return ref;
    },
    read: (session, ref) => Promise.resolve().then(() => readRecords(sessionRecordsDir(stateDir, session), ref)),
  };
}

const cache = new Map<string, readonly StepRecord[]>();

/**
 * Returns all records up to those that `ref` names, oldest first. Records that were read before come from the cache.
 */
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

/**
 * Yields the same records file by file, oldest first, and keeps none: a service reads the history of any session for
 * its clients. Each file is read twice, because only a later file names an earlier one.
 */
export async function* readRecordFiles(dir: string, ref: string): AsyncGenerator<readonly StepRecord[]> {
  const refs: string[] = [];
  for (let at: string | null = ref; at !== null; at = (await readFileLater(fileOf(dir, at))).previous) refs.push(at);
  for (const at of refs.toReversed()) yield (await readFileLater(fileOf(dir, at))).records;
}

async function readFileLater(file: string): Promise<RecordFile> {
  // A long history must not keep a service from its other requests.
  await nextTurn();
  return readFile(file);
}

function readFile(file: string): RecordFile {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as RecordFile;
  } catch (error) {
    throw new CodedError(
      'store/io',
      `earlier records of the session are not on this host (${file}): ${(error as Error).message}`,
      { cause: error },
    );
  }
}

function fileOf(dir: string, ref: string): string {
  if (!isSha256(ref)) throw new CodedError('session/foreign', `${quote(ref)} names no records of a session`);
  return join(dir, `records-${ref}.json`);
}
