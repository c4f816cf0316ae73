/** A child process that is started again when it ends, later and later while it keeps failing. */
import { spawn, type ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

const FIRST_DELAY_MS = 200;
const MAX_DELAY_MS = 10_000;
/** A child that lived this long was healthy: the next start is prompt again. */
const HEALTHY_MS = 30_000;

export interface ChildCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd?: string;
  /** The umask of the child; absent: the parent's. */
  readonly umask?: number;
}

export interface RestartingProcessOptions {
  /** Asked before each start, since ports and addresses may change. */
  readonly command: () => Promise<ChildCommand>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onLine: (line: string) => void;
  readonly onStart: (pid: number) => void;
  readonly onEnd: (how: string, nextStartMs: number) => void;
  /** Called for each message of the child. Absent: the child gets no channel for messages. */
  readonly onMessage?: (message: unknown) => void;
  /** Asks the child with this pid to end; absent: SIGTERM. */
  readonly askToEnd?: (pid: number) => void;
}

export interface RestartingProcess {
  readonly pid: () => number | null;
  /** Asks the running child to end, so that it is started again. */
  restart(): void;
  /** Asks the child to end, then SIGKILL after `graceMs`; it is not started again. Settles when it has ended. */
  stop(graceMs: number): Promise<void>;
  /**
   * Sends a message to the running child, with a connection or without. The connection stays open here, because Node
   * reports no error if the child ends before it reads the message.
   * @throws Error if no child runs, or if it ends before it has the message
   */
  send(message: object, socket: Socket | null): Promise<void>;
}

export function startRestarting(options: RestartingProcessOptions): RestartingProcess {
  let child: ChildProcess | null = null;
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let delayMs = FIRST_DELAY_MS;
  let ended: Promise<void> = Promise.resolve();
  const sending = new Set<(error: Error | null) => void>();

  const startAgain = (afterMs: number): void => {
    if (!stopped) timer = setTimeout(() => void launch(), afterMs);
  };

  const launch = async (): Promise<void> => {
    let command;
    try {
      command = await options.command();
    } catch (error) {
      options.onEnd(`could not be started: ${String(error)}`, delayMs);
      startAgain(delayMs);
      delayMs = Math.min(delayMs * 2, MAX_DELAY_MS);
      return;
    }
    if (stopped) return;
    const startedAt = Date.now();
    const mine = spawnChild(command, options);
    child = mine;
    if (options.onMessage !== undefined) mine.on('message', options.onMessage);
    // Without a descriptor left there are no pipes; the child then ends by its 'error'.
    for (const stream of [mine.stdout, mine.stderr] as (Readable | null | undefined)[]) {
      if (stream !== undefined && stream !== null)
        createInterface({ input: stream, crlfDelay: Infinity }).on('line', options.onLine);
    }
    ended = new Promise((resolve) => {
      const onEnd = (how: string): void => {
        if (child !== mine) return;
        child = null;
        // Node does not call back for a message that was on its way.
        for (const settle of sending) settle(new Error('the process has ended'));
        if (Date.now() - startedAt >= HEALTHY_MS) delayMs = FIRST_DELAY_MS;
        if (!stopped) options.onEnd(how, delayMs);
        startAgain(delayMs);
        delayMs = Math.min(delayMs * 2, MAX_DELAY_MS);
        resolve();
      };
      mine.once('error', (error) => onEnd(error.message));
      mine.once('exit', (code, signal) => onEnd(signal === null ? `exit code ${code}` : `signal ${signal}`));
    });
    if (mine.pid !== undefined) options.onStart(mine.pid);
  };

  const askToEnd = (): void => {
    if (child?.pid === undefined || options.askToEnd === undefined) return void child?.kill('SIGTERM');
    try {
      options.askToEnd(child.pid);
    } catch (error) {
      // It has ended, and its `exit` is on the way.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  };

  void launch();
  return {
    pid: () => child?.pid ?? null,
    restart: askToEnd,
    async stop(graceMs) {
      stopped = true;
      clearTimeout(timer);
      if (child === null) return;
      const kill = setTimeout(() => child?.kill('SIGKILL'), graceMs);
      askToEnd();
      await ended;
      clearTimeout(kill);
    },
    send: (message, socket) =>
      new Promise((resolve, reject) => {
        const settle = (error: Error | null): void => {
          sending.delete(settle);
          if (error === null) resolve();
          else reject(error);
        };
        if (child === null) return settle(new Error('the process has ended'));
        sending.add(settle);
        child.send(message, socket ?? undefined, { keepOpen: true }, settle);
      }),
  };
}

/** Node has no option for a child's umask; it is inherited, and `spawn` forks before it returns. */
function spawnChild(
  { file, args, cwd, umask }: ChildCommand,
  { env, onMessage }: RestartingProcessOptions,
): ChildProcess {
  const before = umask === undefined ? null : process.umask(umask);
  try {
    const channel = onMessage === undefined ? [] : (['ipc'] as const);
    return spawn(file, args, {
      stdio: ['ignore', 'pipe', 'pipe', ...channel],
      env,
      ...(cwd === undefined ? {} : { cwd }),
    });
  } finally {
    if (before !== null) process.umask(before);
  }
}
