/**
 * The index of runs in files. It has no file of its own, because a crash could leave that file out of date. The index
 * reads the outcome of a run from its log, and remembers it in this process while the log is the same file of the same
 * size and time.
 */
import { statSync } from 'node:fs';
import type {
  IdPage,
  IdQuery,
  IndexedRun,
  RunIndex,
  RunPage,
  RunPosition,
  RunQuery,
} from '../../activities/ports/run-index.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import { isRunId } from '../../domain/run/run-id.ts';
import { errnoOf } from '../../files/errno.ts';
import { runsDir } from '../state-folder.ts';
import { LogReader } from './log-reader.ts';
import { eventLogPath, hasLog, listRunFolders } from './run-folder.ts';

/** Reads of first events that are under way at once, so that a folder of thousands of runs is listed without thousands of open files. */
const READERS = 16;
/** A run whose start cannot be read is listed first, where the user sees it. */
const UNREADABLE_START_MS = Number.MAX_SAFE_INTEGER;

type Summary = Pick<IndexedRun, 'name' | 'state' | 'startedAtMs' | 'endedAtMs' | 'problem'>;

interface ListedFolder extends RunPosition {
  readonly runId: string | null;
  /** Why not even the id can be read; null: it can be read. */
  readonly problem: string | null;
}

interface KnownFile {
  /** Identifies the file that this was read from, and its size and time. */
  readonly inode: number;
  readonly stamp: string;
  readonly startedAtMs: number;
  /** Null while only the first event was read. */
  readonly summary: Summary | null;
}

/** @param readSummary  replaced by tests that count its calls */
export function createFileRunIndex(stateDir: string, readSummary: typeof summaryOf = summaryOf): RunIndex {
  const index = new FileRunIndex(stateDir, readSummary);
  return {
    list: (query) => index.list(query),
    openRuns: () => index.openRuns(),
    listIds: (query) => index.listIds(query),
    idsFrom: async (prefix) => (await index.listIds({ prefix, limit: Number.POSITIVE_INFINITY })).ids,
    has: async (runId) => isRunId(runId) && hasLog(stateDir, runId),
  };
}

class FileRunIndex {
  readonly #stateDir: string;
  readonly #readSummary: typeof summaryOf;
  readonly #known = new Map<string, KnownFile>();

  constructor(stateDir: string, readSummary: typeof summaryOf) {
    this.#stateDir = stateDir;
    this.#readSummary = readSummary;
  }

  async list({ state, name, sinceMs, before, limit }: RunQuery): Promise<RunPage> {
    if (!(limit >= 1)) throw new RangeError(`a page of runs has at least 1, not ${limit}`);
    const behind = (await this.inOrder()).filter(
      (run) =>
        (before === undefined || comparePositions(before, run) < 0) &&
        (sinceMs === undefined || run.startedAtMs >= sinceMs),
    );
    const runs: IndexedRun[] = [];
    for (const [at, listed] of behind.entries()) {
      const run = await this.#indexed(listed);
      if (run === null || (state !== undefined && run.state !== state)) continue;
      if (name !== undefined && run.name !== name) continue;
      runs.push(run);
      if (runs.length < limit) continue;
      return { runs, next: at + 1 < behind.length ? positionOf(listed) : null };
    }
    return { runs, next: null };
  }

  async listIds({ prefix, isWanted = () => true, before, limit }: IdQuery): Promise<IdPage> {
    if (!(limit >= 1)) throw new RangeError(`a page of ids has at least 1, not ${limit}`);
    const found = (await this.inOrder(prefix)).flatMap((run) => {
      const { runId } = run;
      const isBehind = before === undefined || comparePositions(before, run) < 0;
      return runId !== null && isBehind && runId.startsWith(prefix) && isWanted(runId) ? [{ ...run, runId }] : [];
    });
    const page = found.slice(0, limit);
    return { ids: page.map(({ runId }) => runId), next: found.length > limit ? positionOf(page.at(-1)!) : null };
  }

  async openRuns(): Promise<readonly string[]> {
    const open: string[] = [];
    for (const listed of await this.inOrder()) {
      const run = await this.#indexed(listed);
      if (run !== null && run.runId !== null && run.state === 'running') open.push(run.runId);
    }
    return open;
  }

  /** Lists runs that have events; the run with the latest first event is first. */
  async inOrder(prefix = ''): Promise<readonly ListedFolder[]> {
    const folders = (await listRunFolders(runsDir(this.#stateDir))).filter(({ runId }) => {
      return runId === null || (runId.startsWith(prefix) && hasLog(this.#stateDir, runId));
    });
    if (prefix === '') this.#forgetAllBut(new Set(folders.map(({ runId }) => runId)));
    const listed: ListedFolder[] = [];
    const next = folders.values();
    const reader = async (): Promise<void> => {
      for (const { name, runId, problem } of next) {
        const startedAtMs = runId === null ? UNREADABLE_START_MS : await this.#startedAtMs(runId);
        listed.push({ runId, label: runId ?? name, startedAtMs, problem: problem?.message ?? null });
      }
    };
    await Promise.all(Array.from({ length: READERS }, reader));
    return listed.sort(comparePositions);
  }

  /** Null for a run that was pruned since it was listed. */
  async #indexed({ runId, label, problem }: ListedFolder): Promise<IndexedRun | null> {
    if (runId === null)
      return { runId, label, name: null, state: 'damaged', startedAtMs: null, endedAtMs: null, problem };
    const file = this.#logOf(runId);
    if (file === null) return null;
    const known = this.#known.get(runId);
    if (file.stamp !== '' && known?.stamp === file.stamp && known.summary !== null)
      return { runId, label, ...known.summary };
    const summary = await this.#readSummary(this.#stateDir, runId);
    this.#known.set(runId, { ...file, startedAtMs: startOf(summary), summary });
    return { runId, label, ...summary };
  }

  async #startedAtMs(runId: string): Promise<number> {
    const file = this.#logOf(runId);
    const known = this.#known.get(runId);
    // The first event of a log stays the first, however the log grows.
    if (file !== null && known?.inode === file.inode && isReadable(known.startedAtMs)) return known.startedAtMs;
    const startedAtMs = await readFirstEventTime(this.#stateDir, runId);
    if (file !== null) this.#known.set(runId, { ...file, startedAtMs, summary: null });
    return startedAtMs;
  }

  /** Called before the log is read, so that the next call notices a change in between. Null: there is no log. */
  #logOf(runId: string): Pick<KnownFile, 'inode' | 'stamp'> | null {
    try {
      const { ino, size, mtimeMs } = statSync(eventLogPath(this.#stateDir, runId));
      return { inode: ino, stamp: `${ino} ${size} ${mtimeMs}` };
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return null;
      // A log that cannot be checked is read each time, and the read reports the problem.
      return { inode: Number.NaN, stamp: '' };
    }
  }

  #forgetAllBut(runIds: ReadonlySet<string | null>): void {
    for (const runId of this.#known.keys()) if (!runIds.has(runId)) this.#known.delete(runId);
  }
}

/**
 * Summarizes the whole log. It reads to the end, also after the terminal event, because damage there is damage of the
 * run.
 */
export async function summaryOf(stateDir: string, runId: string): Promise<Summary> {
  let summary: Summary = { name: null, state: 'running', startedAtMs: null, endedAtMs: null, problem: null };
  const log = new LogReader(stateDir, runId, 0, false);
  try {
    for await (const event of log.toEnd()) {
      const { atMs, body } = event;
      summary = { ...summary, startedAtMs: summary.startedAtMs ?? startIn(event) };
      if (body.type === 'run-admitted') summary = { ...summary, name: body.name };
      if (body.type === 'run-finished') summary = { ...summary, state: body.outcome.state, endedAtMs: atMs };
    }
    return summary;
  } catch (error) {
    if (!isCodedError(error)) throw error;
    return { ...summary, state: 'damaged', endedAtMs: null, problem: error.message };
  } finally {
    await log.close();
  }
}

async function readFirstEventTime(stateDir: string, runId: string): Promise<number> {
  const log = new LogReader(stateDir, runId, 0, false);
  try {
    for await (const event of log.toEnd()) return startIn(event);
    return 0;
  } catch (error) {
    if (isCodedError(error)) return UNREADABLE_START_MS;
    throw error;
  } finally {
    await log.close();
  }
}

/** @param first  the first event of a log: its admission, or its end */
function startIn({ atMs, body }: Pick<RunEvent, 'atMs' | 'body'>): number {
  return body.type === 'run-admitted' ? (body.startedAtMs ?? atMs) : atMs;
}

function startOf({ startedAtMs, problem }: Summary): number {
  return startedAtMs ?? (problem === null ? 0 : UNREADABLE_START_MS);
}

function isReadable(startedAtMs: number): boolean {
  return startedAtMs > 0 && startedAtMs < UNREADABLE_START_MS;
}

function positionOf({ startedAtMs, label }: RunPosition): RunPosition {
  return { startedAtMs, label };
}

function comparePositions(one: RunPosition, other: RunPosition): number {
  return other.startedAtMs - one.startedAtMs || (one.label < other.label ? 1 : one.label > other.label ? -1 : 0);
}
