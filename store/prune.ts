/**
 * Takes away finished runs that nobody wants any more, and artifacts that no run names.
 * Safe beside running workers and a second prune: a run goes by one rename, an artifact is moved aside,
 * looked at once more, and put back if somebody has claimed it meanwhile.
 */
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { artifactPath, partialDir, restoreFromTrash, trashPath } from './file/artifact-store.ts';
import { createFileEventStore } from './file/event-store.ts';
import { artifactsDir, errnoOf, eventLogPath, isRunId, makePrivateDir, recordsDir, runDir, runsDir, storeFailure } from './file/layout.ts';

/** Younger artifacts stay in any case: their run may not have written their names yet. */
export const ARTIFACT_GRACE_MS = 24 * 60 * 60 * 1000;

export interface PruneOptions {
  /** Takes away runs that finished longer ago than this; null takes none away by age. */
  readonly olderThanMs: number | null;
  /** Keeps this many of the runs that finished last, and takes away the others; null takes none away by count. */
  readonly keepLast: number | null;
  /** Says what would go and leaves it. */
  readonly dryRun: boolean;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
}

export interface PruneReport {
  /** Ids of runs that went (or would go), the one that finished first at the head. */
  readonly runs: readonly string[];
  readonly artifacts: number;
  /** Bytes of those artifacts. */
  readonly artifactBytes: number;
  /** Artifacts that no run names either and that are too young to go. */
  readonly youngArtifacts: number;
  readonly youngArtifactBytes: number;
}

/** @throws CodedError `store/io` */
export async function prune(stateDir: string, options: PruneOptions): Promise<PruneReport> {
  try {
    const runs = await runsToRemove(stateDir, options);
    if (!options.dryRun) {
      for (const runId of runs) await removeRun(stateDir, runId);
      await removeLeftovers(stateDir, options.nowMs);
    }
    const garbage = await removeGarbage(stateDir, new Set(runs), options);
    return { runs, ...garbage };
  } catch (error) {
    throw storeFailure('cannot prune', stateDir, error);
  }
}

/** A run without a terminal event is open and stays, however old it is. */
async function runsToRemove(stateDir: string, options: PruneOptions): Promise<string[]> {
  if (options.olderThanMs === null && options.keepLast === null) return [];
  const store = createFileEventStore(stateDir);
  const finished: { runId: string; atMs: number }[] = [];
  for (const runId of await store.listRuns()) {
    for await (const event of store.read(runId, 0, { output: false })) {
      if (event.body.type === 'run-finished') finished.push({ runId, atMs: event.atMs });
    }
  }
  finished.sort((a, b) => a.atMs - b.atMs || (a.runId < b.runId ? -1 : 1));
  const beyond = options.keepLast === null ? 0 : Math.max(0, finished.length - options.keepLast);
  const before = options.olderThanMs === null ? -Infinity : options.nowMs - options.olderThanMs;
  return finished.filter(({ atMs }, index) => index < beyond || atMs < before).map(({ runId }) => runId);
}

/** The leading dot takes the folder out of every list before its files go. */
async function removeRun(stateDir: string, runId: string): Promise<void> {
  const aside = join(runsDir(stateDir), `.removed-${randomBytes(8).toString('hex')}`);
  try {
    await rename(runDir(stateDir, runId), aside);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return;
    throw error;
  }
  await rm(aside, { recursive: true, force: true });
}

/** What an earlier prune or a killed writer left half done. */
async function removeLeftovers(stateDir: string, nowMs: number): Promise<void> {
  for (const name of await names(runsDir(stateDir))) {
    if (name.startsWith('.removed-')) await rm(join(runsDir(stateDir), name), { recursive: true, force: true });
  }
  const partial = partialDir(artifactsDir(stateDir));
  for (const name of await names(partial)) {
    const facts = await statOrNull(join(partial, name));
    if (facts !== null && nowMs - facts.mtimeMs > ARTIFACT_GRACE_MS) await rm(join(partial, name), { force: true });
  }
}

async function removeGarbage(stateDir: string, removedRuns: ReadonlySet<string>, options: PruneOptions): Promise<Omit<PruneReport, 'runs'>> {
  const dir = artifactsDir(stateDir);
  // A prune that was killed left these; they are looked at again like all others.
  for (const sha256 of await names(join(dir, '.trash'))) await restoreFromTrash(dir, sha256);
  const named = await namedArtifacts(stateDir, removedRuns);
  let artifacts = 0;
  let artifactBytes = 0;
  let youngArtifacts = 0;
  let youngArtifactBytes = 0;
  for (const folder of (await names(dir)).filter((name) => /^[0-9a-f]{2}$/.test(name))) {
    for (const sha256 of await names(join(dir, folder))) {
      const facts = named.has(sha256) ? null : await statOrNull(artifactPath(dir, sha256));
      if (facts === null) continue;
      if (options.nowMs - facts.mtimeMs <= ARTIFACT_GRACE_MS) {
        youngArtifacts++;
        youngArtifactBytes += facts.size;
        continue;
      }
      if (!options.dryRun && !(await removeArtifact(dir, sha256, options.nowMs))) continue;
      artifacts++;
      artifactBytes += facts.size;
    }
  }
  return { artifacts, artifactBytes, youngArtifacts, youngArtifactBytes };
}

/** False when somebody claimed it between the first look and the move. */
async function removeArtifact(dir: string, sha256: string, nowMs: number): Promise<boolean> {
  const aside = trashPath(dir, sha256);
  await makePrivateDir(join(dir, '.trash'));
  try {
    await rename(artifactPath(dir, sha256), aside);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
  const facts = await statOrNull(aside);
  if (facts !== null && nowMs - facts.mtimeMs > ARTIFACT_GRACE_MS) {
    await rm(aside, { force: true });
    return true;
  }
  await restoreFromTrash(dir, sha256);
  return false;
}

/**
 * Every hash that stands in the records or events of a run that stays. It reads text, not structure: a
 * record of a later version, or one that nobody thought of here, keeps its artifacts too.
 */
async function namedArtifacts(stateDir: string, removedRuns: ReadonlySet<string>): Promise<Set<string>> {
  const named = new Set<string>();
  for (const runId of (await names(runsDir(stateDir))).filter((name) => isRunId(name) && !removedRuns.has(name))) {
    const records = recordsDir(stateDir, runId);
    const files = [eventLogPath(stateDir, runId), ...(await names(records)).map((name) => join(records, name))];
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
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
}

async function names(dir: string): Promise<string[]> {
  try {
    return (await readdir(dir)).toSorted();
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
}

async function statOrNull(path: string): Promise<{ readonly size: number; readonly mtimeMs: number } | null> {
  try {
    return await stat(path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw error;
  }
}
