/**
 * The embedded database: a child of the supervisor that is started when it is first needed, is started again after a
 * crash, and ends with the stack. Runs do not use it.
 */
import { readFileSync } from 'node:fs';
import type { DatabaseState } from '../../../client/embedded/control.ts';
import { cutText } from '../../../domain/units/cut-text.ts';
import type { DatabasePieces } from '../../../setup/resolve.ts';
import { textOf } from '../../log.ts';
import { type ChildCommand, type RestartingProcess, startRestarting } from '../restarting-process.ts';
import { runInitdb } from './make-data.ts';
import {
  buildInitdbCommand,
  buildPostgresCommand,
  buildPostgresEnv,
  type PostgresPrograms,
} from './postgres-command.ts';
import {
  findData,
  forgetPid,
  keepData,
  locatePostgres,
  prepareFolders,
  removeUnfinishedData,
} from './postgres-files.ts';

/** A fast shutdown writes a checkpoint. */
const GRACE_MS = 10_000;
const READY_LINE = /LOG: {2}database system is ready to accept connections$/;
const REASON_LINE = /\b(?:PANIC|FATAL|error):/;
const DISK_FULL = /No space left on device|Disk quota exceeded|\bENOSPC\b|\bEDQUOT\b/;
/** How a failure before the start begins. */
const NOT_STARTED = /^could not be started: Error: /;
const LAST_LINES = 20;

export interface EmbeddedPostgresOptions {
  readonly stateDir: string;
  readonly keeper: string;
  /** Asked before each start. @throws Error with the remedy, if a piece is missing */
  readonly pieces: () => Promise<DatabasePieces>;
  /** Whether another folder has replaced the state folder. */
  readonly isGone: () => boolean;
  readonly onLine: (line: string) => void;
  readonly onProblem: (message: string) => void;
}

export interface EmbeddedPostgres {
  /** Starts it if it was not started yet. */
  start(): void;
  /** Null: it was not started. */
  state(): DatabaseState | null;
  /** The pid of the child, which with root is bubblewrap; null while it does not run. */
  pid(): number | null;
  /** Settles when it has ended. It is not started again. */
  stop(): Promise<void>;
}

export function createEmbeddedPostgres(options: EmbeddedPostgresOptions): EmbeddedPostgres {
  const paths = locatePostgres(options.stateDir);
  const stopped = new AbortController();
  let running: RestartingProcess | null = null;
  let state: DatabaseState = { socketDir: paths.socketDir, phase: 'starting', reason: null, isDiskFull: false };
  let isJailed = false;
  let lines: string[] = [];

  const launch = (env: Record<string, string>): RestartingProcess =>
    startRestarting({
      env,
      command: async () => {
        lines = [];
        if (options.isGone()) throw new Error(`the state folder ${options.stateDir} is gone`);
        const pieces = await options.pieces();
        isJailed = pieces.bwrap !== null;
        Object.assign(env, buildPostgresEnv(pieces));
        return await prepareStart({ pieces, keeper: options.keeper, paths }, env, stopped.signal);
      },
      onStart: () => undefined,
      onLine: (line) => {
        if (lines.push(line) > LAST_LINES) lines.shift();
        options.onLine(line);
        if (READY_LINE.test(line)) state = { ...state, phase: 'up', reason: null, isDiskFull: false };
      },
      onEnd: (how, nextStartMs) => {
        const wasUp = state.phase === 'up';
        const said = [how, ...lines].join('\n');
        const isDiskFull = DISK_FULL.test(said);
        const reason = cutText(lines.findLast((line) => REASON_LINE.test(line)) ?? how.replace(NOT_STARTED, ''));
        state = { ...state, phase: wasUp && !isDiskFull ? 'starting' : 'failed', reason, isDiskFull };
        options.onProblem(`PostgreSQL does not run: ${reason}; it starts again in ${nextStartMs} ms`);
      },
      askToEnd: (pid) => process.kill(findPostmaster(pid, isJailed), 'SIGINT'),
    });

  return {
    start() {
      if (running === null && !stopped.signal.aborted) running = launch({});
    },
    state: () => (running === null ? null : state),
    pid: () => running?.pid() ?? null,
    async stop() {
      stopped.abort();
      await running?.stop(GRACE_MS);
    },
  };
}

/** Makes the data if it does not exist, and removes what an earlier server left. */
async function prepareStart(
  programs: PostgresPrograms,
  env: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<ChildCommand> {
  const { paths } = programs;
  prepareFolders(paths);
  removeUnfinishedData(paths);
  if (!findData(paths)) {
    await runInitdb(buildInitdbCommand(programs), env, signal).catch((error: unknown) => {
      // A full disk gets its room back.
      removeUnfinishedData(paths);
      throw new Error(textOf(error), { cause: error });
    });
    keepData(paths);
  }
  forgetPid(paths);
  return buildPostgresCommand(programs);
}

/** In a jail, the server is the child of the child. Before it has started, only bubblewrap can be ended. */
function findPostmaster(pid: number, isJailed: boolean): number {
  if (!isJailed) return pid;
  try {
    return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')[0]) || pid;
  } catch {
    return pid;
  }
}
