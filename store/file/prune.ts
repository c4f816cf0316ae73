/**
 * Deletes finished runs by the conditions of the user, and artifacts that no run names. Workers and a second prune may
 * run at the same time: a run goes by one rename. An artifact is moved aside, checked again, and restored if a process
 * has claimed it since.
 */
import { randomBytes } from 'node:crypto';
import { createReadStream, type Stats } from 'node:fs';
import { lstat, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { PruneOptions, PruneReport } from '../../activities/ports/run-pruner.ts';
import { ARTIFACT_GRACE_MS, NAMING_MS } from '../prune-times.ts';
import { artifactPath, partialDir, restoreFromTrash, trashPath } from './artifact-store.ts';
import { readAllRuns } from '../every-run.ts';
import { leaveOutBorrowed } from './borrowed-uploads.ts';
import { createFileRunIndex } from './run-index.ts';
import { artifactsDir, damagedDir, createStoreFailure } from './layout.ts';
import { listHeld } from './held-artifacts.ts';
import { errnoOf } from '../../files/errno.ts';
import { listHalfFilesIn } from '../half-files.ts';
import { findCheckpointsIn, makePrivateDir, runDir, runsDir } from '../state-folder.ts';
import { UPLOAD_LIMITS } from '../uploads.ts';
import { sweepUploads } from './uploads.ts';
import { listRunFolders } from './run-folder.ts';

/** @throws CodedError `store/io` */
export async function prune(stateDir: string, options: PruneOptions): Promise<PruneReport> {
  try {
    const survey = await surveyRuns(stateDir);
    const runs = await leaveOutBorrowed(stateDir, selectRunsToRemove(survey, options));
    const removed: { runId: string; sizeBytes: number }[] = [];
    for (const runId of runs) {
      const sizeBytes = await sizeOf(runDir(stateDir, runId));
      if (options.dryRun || (await removeRun(stateDir, runId))) removed.push({ runId, sizeBytes });
    }
    if (!options.dryRun) await removeLeftovers(stateDir, options.nowMs);
    const garbage = await removeGarbage(stateDir, new Set(runs), youngestToRemoveMs(survey, options), options.dryRun);
    const runBytes = removed.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    return { runs: removed.map(({ runId }) => runId), removed, runBytes, damaged: survey.damaged, ...garbage };
  } catch (error) {
    throw createStoreFailure('cannot prune', stateDir, error);
  }
}

interface Survey {
  /** In the order of their end. */
  readonly finished: readonly { readonly runId: string; readonly atMs: number }[];
  /** When the open runs began. */
  readonly openSinceMs: readonly number[];
  readonly damaged: readonly string[];
}

async function surveyRuns(stateDir: string): Promise<Survey> {
  const finished: { runId: string; atMs: number }[] = [];
  const openSinceMs: number[] = [];
  const damaged: string[] = [];
  for await (const { runId, label, state, startedAtMs, endedAtMs } of readAllRuns(createFileRunIndex(stateDir))) {
    if (runId === null || state === 'damaged') damaged.push(label);
    else if (endedAtMs !== null) finished.push({ runId, atMs: endedAtMs });
    else {
      // A run without events begins now.
      if (startedAtMs !== null) openSinceMs.push(startedAtMs);
    }
  }
  finished.sort((a, b) => a.atMs - b.atMs || (a.runId < b.runId ? -1 : 1));
  return { finished, openSinceMs, damaged };
}

/**
 * A run is removed if every given condition allows it. A run without a terminal event is open and stays, however old it
 * is.
 */
function selectRunsToRemove({ finished }: Survey, { olderThanMs, keepLast, nowMs }: PruneOptions): readonly string[] {
  if (olderThanMs === null && keepLast === null) return [];
  const beyond = keepLast === null ? finished.length : Math.max(0, finished.length - keepLast);
  const before = olderThanMs === null ? Infinity : nowMs - olderThanMs;
  return finished.filter(({ atMs }, index) => index < beyond && atMs < before).map(({ runId }) => runId);
}

/**
 * Artifacts that were stored or claimed after this time stay, because a run may be about to name them. A damaged run
 * names no new artifact.
 */
function youngestToRemoveMs({ openSinceMs }: Survey, { artifactsNow = false, dryRun, nowMs }: PruneOptions): number {
  if (!artifactsNow) return nowMs - ARTIFACT_GRACE_MS;
  return Math.min(dryRun ? nowMs : nowMs - NAMING_MS, ...openSinceMs);
}

async function sizeOf(path: string): Promise<number> {
  const facts = await lstat(path).catch(() => null);
  if (facts === null || !facts.isDirectory()) return facts?.size ?? 0;
  let sizeBytes = 0;
  for (const name of await names(path)) sizeBytes += await sizeOf(join(path, name));
  return sizeBytes;
}

/**
 * The leading dot takes the folder out of every list before its files go.
 * @returns false if another prune has removed the run
 */
async function removeRun(stateDir: string, runId: string): Promise<boolean> {
  return await removeFolder(stateDir, runDir(stateDir, runId));
}

async function removeFolder(stateDir: string, path: string): Promise<boolean> {
  const aside = join(runsDir(stateDir), `.removed-${randomBytes(8).toString('hex')}`);
  try {
    await rename(path, aside);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
  await rm(aside, { recursive: true, force: true });
  return true;
}

/** Files that a client writes before it starts the run. */
const LEFT_BY_CLIENTS = [
  'records/client.json',
  'records/input.json',
  'records/request.json',
  'records/source.json',
  'records/start.json',
  'records/void-box.json',
  'records/void-box-cancel.json',
  'host-variables.json',
] as const;

/** Removes data that an earlier prune or a killed writer left unfinished. */
async function removeLeftovers(stateDir: string, nowMs: number): Promise<void> {
  for (const name of await names(runsDir(stateDir))) {
    if (name.startsWith('.removed-')) await rm(join(runsDir(stateDir), name), { recursive: true, force: true });
  }
  // Data of a run that never started, because its client was killed before.
  for (const { path } of await listRunFolders(runsDir(stateDir))) {
    if ((await statOrNull(join(path, 'events.jsonl'))) !== null) continue;
    const records = join(path, 'records');
    // The key of a request for many runs has a folder of its own, and no run.
    if (await isOld(join(records, 'actions.json'), nowMs)) {
      await removeFolder(stateDir, path);
      continue;
    }
    const left = LEFT_BY_CLIENTS.map((name) => join(path, name));
    // Claims of starts that took over from killed ones.
    const claims = (await names(records))
      .filter((name) => name.startsWith('start-'))
      .map((name) => join(records, name));
    const half = [...listHalfFilesIn(path), ...listHalfFilesIn(records)];
    const unpacked = (await names(join(path, 'uploads'))).map((name) => join(path, 'uploads', name));
    // Its admission may have taken checkpoints over.
    await removeOld([...left, ...claims, ...half, ...unpacked, findCheckpointsIn(path)], nowMs);
  }
  await sweepUploads(stateDir, UPLOAD_LIMITS, nowMs, () => false);
  const partial = partialDir(artifactsDir(stateDir));
  await removeOld(
    (await names(partial)).map((name) => join(partial, name)),
    nowMs,
  );
}

/** @param paths  files, and folders with all they contain */
async function removeOld(paths: readonly string[], nowMs: number): Promise<void> {
  for (const path of paths) if (await isOld(path, nowMs)) await rm(path, { recursive: true, force: true });
}

/** False for a file that does not exist. */
async function isOld(path: string, nowMs: number): Promise<boolean> {
  const facts = await statOrNull(path);
  return facts !== null && nowMs - facts.mtimeMs > ARTIFACT_GRACE_MS;
}

type Garbage = Pick<PruneReport, 'artifacts' | 'artifactBytes' | 'youngArtifacts' | 'youngArtifactBytes'>;

async function removeGarbage(
  stateDir: string,
  removedRuns: ReadonlySet<string>,
  youngestMs: number,
  dryRun: boolean,
): Promise<Garbage> {
  const dir = artifactsDir(stateDir);
  // A killed prune left these artifacts. This prune checks them again like all others.
  for (const sha256 of await names(join(dir, '.trash'))) await restoreFromTrash(dir, sha256);
  const named = await readNamedArtifacts(stateDir, removedRuns);
  let artifacts = 0;
  let artifactBytes = 0;
  let youngArtifacts = 0;
  let youngArtifactBytes = 0;
  for (const folder of (await names(dir)).filter((name) => /^[0-9a-f]{2}$/.test(name))) {
    for (const sha256 of await names(join(dir, folder))) {
      const facts = named.has(sha256) ? null : await statOrNull(artifactPath(dir, sha256));
      if (facts === null) continue;
      if (facts.mtimeMs >= youngestMs) {
        youngArtifacts++;
        youngArtifactBytes += facts.size;
        continue;
      }
      if (!dryRun && !(await removeArtifact(dir, sha256, youngestMs))) continue;
      artifacts++;
      artifactBytes += facts.size;
    }
  }
  return { artifacts, artifactBytes, youngArtifacts, youngArtifactBytes };
}

/** False if a process claimed it between the first check and the move. */
async function removeArtifact(dir: string, sha256: string, youngestMs: number): Promise<boolean> {
  const aside = trashPath(dir, sha256);
  await makePrivateDir(join(dir, '.trash'));
  try {
    await rename(artifactPath(dir, sha256), aside);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
  const facts = await statOrNull(aside);
  if (facts !== null && facts.mtimeMs < youngestMs) {
    await rm(aside, { force: true });
    return true;
  }
  await restoreFromTrash(dir, sha256);
  return false;
}

/**
 * Returns every hash in the records or events of a run that stays, also of damaged runs and runs that were set aside.
 * It reads text, not structure, so that unknown records and records of later versions keep their artifacts too.
 */
async function readNamedArtifacts(stateDir: string, removedRuns: ReadonlySet<string>): Promise<Set<string>> {
  // Deliveries whose run has not started name these.
  const named = new Set<string>(await listHeld(stateDir));
  const kept = (await listRunFolders(runsDir(stateDir))).filter(
    ({ runId }) => runId === null || !removedRuns.has(runId),
  );
  const aside = damagedDir(stateDir);
  for (const path of [...kept.map((folder) => folder.path), ...(await names(aside)).map((name) => join(aside, name))]) {
    const records = join(path, 'records');
    const files = [join(path, 'events.jsonl'), ...(await names(records)).map((name) => join(records, name))];
    for (const file of files) await hashesIn(file, named);
  }
  return named;
}

async function hashesIn(file: string, into: Set<string>): Promise<void> {
  let tail = '';
  try {
    for await (const chunk of createReadStream(file, { encoding: 'latin1' })) {
      const text = tail + String(chunk);
      for (const [, sha256] of text.matchAll(/"([0-9a-f]{64})"/g)) if (sha256 !== undefined) into.add(sha256);
      tail = text.slice(-65);
    }
  } catch (error) {
    // A folder with the name of the file names nothing. A file that cannot be read might, and then nothing is removed.
    if (!ABSENT.has(errnoOf(error))) throw error;
  }
}

/** The file does not exist, or something else has its name. */
const ABSENT: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ENOTDIR', 'EISDIR']);

async function names(dir: string): Promise<string[]> {
  try {
    return (await readdir(dir)).toSorted();
  } catch (error) {
    if (ABSENT.has(errnoOf(error))) return [];
    throw error;
  }
}

async function statOrNull(path: string): Promise<Stats | null> {
  try {
    return await stat(path);
  } catch (error) {
    if (ABSENT.has(errnoOf(error))) return null;
    throw error;
  }
}
