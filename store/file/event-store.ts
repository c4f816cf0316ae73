/** Events of runs in files below a state folder, for the processes of one host. */
import { randomBytes } from 'node:crypto';
import { accessSync } from 'node:fs';
import { join } from 'node:path';
import type { EventStore } from '../../activities/ports/event-log.ts';
import type { Durability } from './durability.ts';
import { DurableFolders, errnoOf, runsDir } from './layout.ts';
import { eventLogPath, listRunFolders, runFolderName } from './run-folder.ts';
import { RunLog } from './run-log.ts';
import { RunReader } from './run-reader.ts';
import { FileWake } from './wake.ts';

/** Logs held open for appending; the one that was used longest ago is closed for another. */
const OPEN_LOGS = 64;

export interface FileEventStore extends EventStore {
  /** Closes files. Appends that are under way keep theirs to their end. */
  close(): void;
}

/**
 * `append` returns when the events survive the death of any process. `run-admitted`, `run-finished` and, where durability is
 * `power`, `stage-finished` are on the disk by then, with all before them. A power cut may take the others from the last
 * seconds, and readers then see a shorter log, never a torn event.
 */
export function createFileEventStore(stateDir: string, durability: Durability = 'power'): FileEventStore {
  const token = `${process.pid}-${randomBytes(6).toString('hex')}`;
  const logs = new OpenLogs(stateDir, token, durability);
  return {
    append: (runId, events, writer) =>
      logs.use(runId, async (log) => {
        if (!log.isRelied(events)) return log.append(events, writer);
        await log.settleOutput();
        const count = log.append(events, writer);
        await log.settle();
        return count;
      }),
    async find(runId, id) {
      if (!exists(eventLogPath(stateDir, runId))) return null;
      if (!(await logs.use(runId, (log) => Promise.resolve(log.has(id))))) return null;
      for await (const event of read(stateDir, runId, 0, false)) if (event.id === id) return event;
      return null;
    },
    read: (runId, after, options) => read(stateDir, runId, after, options?.output ?? true),
    follow: (runId, after, signal, options) => follow(stateDir, runId, after, signal, options?.output ?? true),
    async outputCursor(runId, execKey, stream) {
      if (!exists(eventLogPath(stateDir, runId))) return 0;
      return logs.use(runId, (log) => Promise.resolve(log.outputCursor(execKey, stream)));
    },
    listRuns: () => listRuns(stateDir),
    close: () => logs.close(),
  };
}

async function* read(
  stateDir: string,
  runId: string,
  after: number,
  output: boolean,
): ReturnType<EventStore['read']> & AsyncGenerator {
  const reader = new RunReader(stateDir, runId, after, output);
  try {
    yield* reader.toEnd();
  } finally {
    await reader.close();
  }
}

async function* follow(
  stateDir: string,
  runId: string,
  after: number,
  signal: AbortSignal,
  output: boolean,
): ReturnType<EventStore['follow']> & AsyncGenerator {
  const reader = new RunReader(stateDir, runId, after, output);
  const wake = new FileWake(reader.path);
  try {
    while (!signal.aborted) {
      wake.arm();
      for await (const event of reader.toEnd()) {
        yield event;
        if (event.body.type === 'run-finished' || signal.aborted) return;
      }
      if (reader.finished) return;
      await wake.wait(signal);
    }
  } finally {
    wake.close();
    await reader.close();
  }
}

async function listRuns(stateDir: string): Promise<readonly string[]> {
  const folders = await listRunFolders(runsDir(stateDir));
  return folders.flatMap(({ path, runId }) => (runId !== null && exists(join(path, 'events.jsonl')) ? [runId] : []));
}

function exists(path: string): boolean {
  try {
    accessSync(path);
    return true;
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENOENT' || errno === 'ENOTDIR') return false;
    // That it cannot be looked at is told of this run when it is read.
    return true;
  }
}

class OpenLogs {
  readonly #stateDir: string;
  readonly #token: string;
  readonly #durability: Durability;
  readonly #folders: DurableFolders;
  /** In the order of last use. */
  readonly #entries = new Map<string, { readonly log: Promise<RunLog>; users: number; closing: boolean }>();
  #opened = 0;

  constructor(stateDir: string, token: string, durability: Durability) {
    this.#stateDir = stateDir;
    this.#token = token;
    this.#durability = durability;
    this.#folders = new DurableFolders(stateDir);
  }

  async use<T>(runId: string, work: (log: RunLog) => Promise<T>): Promise<T> {
    runFolderName(runId);
    // A log that is opened again writes another output file: the earlier one has its own end.
    const entry = this.#entries.get(runId) ?? {
      log: RunLog.open(this.#stateDir, this.#folders, runId, `${this.#token}-${this.#opened++}`, this.#durability),
      users: 0,
      closing: false,
    };
    this.#entries.delete(runId);
    this.#entries.set(runId, entry);
    entry.users++;
    try {
      return await work(await entry.log);
    } catch (error) {
      // A log that failed is opened anew by the next append: what is known of it may no longer be so.
      if (this.#entries.get(runId) === entry) this.#entries.delete(runId);
      entry.closing = true;
      throw error;
    } finally {
      entry.users--;
      this.#trim();
      if (entry.closing && entry.users === 0) closeQuietly(entry.log);
    }
  }

  close(): void {
    for (const [runId, entry] of this.#entries) {
      this.#entries.delete(runId);
      entry.closing = true;
      if (entry.users === 0) closeQuietly(entry.log);
    }
  }

  #trim(): void {
    for (const [runId, entry] of this.#entries) {
      if (this.#entries.size <= OPEN_LOGS) return;
      if (entry.users > 0) continue;
      this.#entries.delete(runId);
      closeQuietly(entry.log);
    }
  }
}

/** The events are written by then; a failed close says nothing that a caller could use. */
function closeQuietly(log: Promise<RunLog>): void {
  log.then((opened) => opened.close()).catch(() => undefined);
}
