/** Events of runs in files below a state folder, for the processes of one host. */
import { randomBytes } from 'node:crypto';
import type { EventLog } from '../../activities/ports/event-log.ts';
import type { Durability } from './durability.ts';
import { DurableFolders } from './layout.ts';
import { LogReader } from './log-reader.ts';
import { hasLog, removeHalfFilesOfRun } from './run-folder.ts';
import { runFolderName } from '../state-folder.ts';
import { isRelied, RunLog } from './run-log.ts';

/** The limit of logs that are open for appending. The log that was used longest ago is closed for another. */
const OPEN_LOGS = 64;

export interface FileEventLog extends EventLog {
  /** Closes files, each when the last append to it has ended. Nothing is appended from then on. */
  close(): Promise<void>;
}

/**
 * `append` returns when the events survive the death of any process. `run-admitted` and `run-finished` are then on the
 * disk, with all events before them. With the durability `power` this also holds for `stage-finished` and
 * `stage-answered`. A power cut may take other events of the last seconds. Readers then see a shorter log, never a torn
 * event.
 */
export function createFileEventLog(
  stateDir: string,
  durability: Durability = 'power',
  folders = new DurableFolders(stateDir),
): FileEventLog {
  const token = `${process.pid}-${randomBytes(6).toString('hex')}`;
  const logs = new OpenLogs(stateDir, token, folders);
  return {
    append: (runId, events, writer) => {
      if (!isRelied(durability, events)) return logs.useAtOnce(runId, (log) => log.append(events, writer));
      return logs.use(runId, async (log) => {
        // Before the event: a worker that is killed in between writes it again.
        if (events.some(({ body }) => body.type === 'run-finished')) removeHalfFilesOfRun(stateDir, runId);
        await log.settleOutput();
        const count = log.append(events, writer);
        await log.settle();
        return count;
      });
    },
    async find(runId, id) {
      if ((await logs.ask(runId, (log) => log.has(id))) !== true) return null;
      const reader = new LogReader(stateDir, runId, 0, false);
      try {
        for await (const event of reader.toEnd()) if (event.id === id) return event;
        return null;
      } finally {
        await reader.close();
      }
    },
    async outputCursor(runId, execKey, stream) {
      return (await logs.ask(runId, (log) => log.outputCursor(execKey, stream))) ?? 0;
    },
    close: () => logs.close(),
  };
}

class OpenLogs {
  readonly #stateDir: string;
  readonly #token: string;
  readonly #folders: DurableFolders;
  /** In the order of last use. */
  readonly #entries = new Map<string, OpenLog>();
  /** Closes that are not complete, and logs that close when their last user has ended. */
  readonly #closes = new Set<Promise<void>>();
  #opened = 0;
  #isClosed = false;

  constructor(stateDir: string, token: string, folders: DurableFolders) {
    this.#stateDir = stateDir;
    this.#token = token;
    this.#folders = folders;
  }

  /**
   * @param question  returns null if the run of its log was pruned, which an open log checks anyway
   * @returns null if the run has no log
   */
  ask<T>(runId: string, question: (log: RunLog) => T | null): T | null | Promise<T | null> {
    const open = this.#openLog(runId);
    const answer = open === null ? null : this.#useNow(runId, open, question);
    if (answer !== null || !hasLog(this.#stateDir, runId)) return answer;
    // Another run has the id since. Otherwise the log stays open, so that no append brings the pruned run back.
    if (open !== null) this.#close(runId, open.entry);
    return this.use(runId, async (opened) => question(opened));
  }

  /**
   * Runs work that waits for nothing. If the log is open, the work is done before this returns: each promise between a
   * stage and its log costs about as much as the write, and a stage calls this ten times.
   */
  useAtOnce<T>(runId: string, work: (log: RunLog) => T): Promise<T> {
    const open = this.#openLog(runId);
    if (open === null) return this.use(runId, async (opened) => work(opened));
    try {
      return Promise.resolve(this.#useNow(runId, open, work));
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  #openLog(runId: string): { readonly entry: OpenLog; readonly log: RunLog } | null {
    const entry = this.#entries.get(runId);
    const log = entry?.opened ?? null;
    return entry === undefined || log === null || this.#isClosed ? null : { entry, log };
  }

  #useNow<T>(
    runId: string,
    { entry, log }: { readonly entry: OpenLog; readonly log: RunLog },
    work: (log: RunLog) => T,
  ): T {
    this.#entries.delete(runId);
    this.#entries.set(runId, entry);
    try {
      return work(log);
    } catch (error) {
      this.#close(runId, entry);
      throw error;
    }
  }

  async use<T>(runId: string, work: (log: RunLog) => Promise<T>): Promise<T> {
    runFolderName(runId);
    if (this.#isClosed) throw new Error(`run ${runId}: its log is used after the store was closed`);
    // A log that is opened again writes another output file: the earlier one has its own end.
    const entry =
      this.#entries.get(runId) ??
      new OpenLog(RunLog.open(this.#stateDir, this.#folders, runId, `${this.#token}-${this.#opened++}`));
    this.#entries.delete(runId);
    this.#entries.set(runId, entry);
    entry.users++;
    try {
      return await work(await entry.log);
    } catch (error) {
      // The next append opens a failed log again, because the known state of the log may be wrong.
      this.#close(runId, entry);
      throw error;
    } finally {
      entry.left();
      this.#trim();
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const [runId, entry] of this.#entries) this.#close(runId, entry);
    await Promise.all(this.#closes);
  }

  #trim(): void {
    for (const [runId, entry] of this.#entries) {
      if (this.#entries.size <= OPEN_LOGS) return;
      if (entry.users === 0) this.#close(runId, entry);
    }
  }

  #close(runId: string, entry: OpenLog): void {
    if (this.#entries.get(runId) === entry) this.#entries.delete(runId);
    const closed = entry.close();
    this.#closes.add(closed);
    void closed.then(() => this.#closes.delete(closed));
  }
}

/** A log and the number of its users. The log closes after the last of them. */
class OpenLog {
  readonly log: Promise<RunLog>;
  /** Null until it is open. */
  opened: RunLog | null = null;
  users = 0;
  readonly #unused: Promise<void>;
  #free!: () => void;
  #closed: Promise<void> | null = null;

  constructor(log: Promise<RunLog>) {
    this.log = log.then((opened) => (this.opened = opened));
    this.#unused = new Promise((resolve) => (this.#free = resolve));
  }

  left(): void {
    this.users--;
    if (this.#closed !== null && this.users === 0) this.#free();
  }

  /** No new user begins after this call. */
  close(): Promise<void> {
    if (this.#closed !== null) return this.#closed;
    if (this.users === 0) this.#free();
    // The events are already written. A failed close reports nothing that a caller could use.
    this.#closed = this.#unused.then(async () => (await this.log).close()).catch(() => undefined);
    return this.#closed;
  }
}
