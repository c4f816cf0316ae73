/** Checks all files of a run and reports a file that is not what was written. Changes nothing. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { DamagedRun } from '../../activities/ports/run-inspector.ts';
import { type CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import { createDamageError } from './damage.ts';
import { errnoOf } from '../../files/errno.ts';
import { runsDir, runDir } from '../state-folder.ts';
import { listRunFolders } from './run-folder.ts';
import { LogReader } from './log-reader.ts';
import { readHostVariables } from './host-variables.ts';
import { readRecord } from './run-records.ts';

/** A record admits a run before its first event, so only a log that stays empty has lost something. */
const ADMISSION_MS = 10_000;
/** Written before the first event. */
const FIRST_RECORDS: ReadonlySet<string> = new Set(['client', 'source', 'input', 'request', 'plan', 'admission']);
const MAIN_RECORDS = ['client', 'plan', 'admission', 'manifest'] as const;

/** Every damaged run below the state folder, by folder. @throws CodedError `store/io` when the runs cannot be listed */
export async function findDamagedRuns(stateDir: string): Promise<readonly DamagedRun[]> {
  const found: DamagedRun[] = [];
  for (const folder of await listRunFolders(runsDir(stateDir))) {
    const problem = folder.runId === null ? folder.problem : await inspectRun(stateDir, folder.runId, folder.path);
    if (problem !== null)
      found.push({ runId: folder.runId, label: folder.runId ?? folder.name, place: folder.path, problem });
  }
  return found;
}

/** Returns the problem of a run's files; null: there is no problem. A file that cannot be read is a problem, too. */
async function inspectRun(stateDir: string, runId: string, path: string): Promise<CodedError | null> {
  try {
    const events = await readThrough(stateDir, runId);
    inspectRecords(stateDir, runId, path);
    if (events === 0) inspectBeginning(path);
    return null;
  } catch (error) {
    if (isCodedError(error)) return error;
    throw error;
  }
}

/** Reads every event, and checks that output is where the log names it. @returns the number of events */
async function readThrough(stateDir: string, runId: string): Promise<number> {
  const reader = new LogReader(stateDir, runId, 0, false);
  const sizes = new Map<string, number>();
  try {
    for await (const _ of reader.toEnd((place) => checkPlace(reader.outputDir, place, sizes))) continue;
    return reader.seq;
  } finally {
    await reader.close();
  }
}

function checkPlace(
  dir: string,
  place: { readonly file: string; readonly offset: number; readonly bytes: number },
  sizes: Map<string, number>,
): void {
  const path = join(dir, place.file);
  let size = sizes.get(place.file);
  if (size === undefined) {
    size = sizeOrNull(path) ?? undefined;
    if (size === undefined) throw createDamageError(path, 'it is missing, and the log names it');
    sizes.set(place.file, size);
  }
  if (place.offset + place.bytes > size)
    throw createDamageError(path, `it ends at byte ${size}, and the log names byte ${place.offset + place.bytes}`);
}

function inspectRecords(stateDir: string, runId: string, path: string): void {
  for (const name of recordNames(join(path, 'records'))) readRecord(stateDir, runId, name);
  readHostVariables(stateDir, runId);
}

/** Checks the records that the whole run depends on. @throws CodedError `store/damaged`, `store/io` */
export function checkMainRecords(stateDir: string, runId: string, events: number): void {
  for (const name of MAIN_RECORDS) readRecord(stateDir, runId, name);
  readHostVariables(stateDir, runId);
  if (events === 0) inspectBeginning(runDir(stateDir, runId));
}

function recordNames(dir: string): readonly string[] {
  try {
    return readdirSync(dir)
      .filter((file) => file.endsWith('.json'))
      .map((file) => decodeURIComponent(file.slice(0, -'.json'.length)));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw createDamageError(dir, `its records cannot be listed: ${(error as Error).message}`, error);
  }
}

function inspectBeginning(path: string): void {
  const admission = join(path, 'records', 'admission.json');
  if (!existsSync(admission) || Date.now() - statSync(admission).mtimeMs < ADMISSION_MS) return;
  throw createDamageError(
    join(path, 'events.jsonl'),
    'the run was admitted, and its events are gone, or a full disk keeps its first one from being written',
  );
}

/** See `RunInspector`. */
export async function mayBeBeginning(stateDir: string, { runId, place }: DamagedRun): Promise<boolean> {
  if (runId === null) return false;
  try {
    // Any other record shows that the run has got further.
    if (!recordNames(join(place, 'records')).every((name) => FIRST_RECORDS.has(name))) return false;
    return (await readThrough(stateDir, runId)) === 0;
  } catch (error) {
    if (isCodedError(error)) return false;
    throw error;
  }
}

function sizeOrNull(path: string): number | null {
  try {
    return statSync(path).size;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return null;
    throw error;
  }
}
