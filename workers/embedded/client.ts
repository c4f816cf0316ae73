/** The embedded stack as its clients see it. Light: loads neither worker nor Temporal client. */
import { spawn } from 'node:child_process';
import { closeSync, fstatSync, ftruncateSync, mkdirSync, openSync, readFileSync, utimesSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { formatBytes } from '../../domain/units/bytes.ts';
import type { Environment } from '../../setup/environment.ts';
import type { StackPieces } from '../../setup/host-pieces.ts';
import { makeOwnFolder } from '../../setup/own-folder.ts';
import { packageRoot } from '../../setup/package-root.ts';
import { resolveStackPieces, SetupError } from '../../setup/resolve.ts';
import { readDiskRoom } from '../../store/file/disk-room.ts';
import { buildId } from './build-id.ts';
import { skillsMark } from './skill-paths.ts';
import { logsDir, readStackFile, stackFile, stackLockFile, type StackInfo } from './stack-info.ts';

export type { StackInfo } from './stack-info.ts';

/** A loaded machine needs its time: Node, the server and the worker start one after the other. */
const START_LIMIT_MS = 90_000;
const STOP_LIMIT_MS = 60_000;
const POLL_MS = 50;
const LOCK_AGAIN_MS = 1_000;
/** Of the log of a start that failed. */
const LAST_LINES = 16;
/** Of each of them: Temporal's server writes lines of several KiB. */
const LINE_CHARACTERS = 400;
const START_LOG_BYTES = 256 * 1024;
/** `voidbox-vm lock` says so when another supervisor holds the lock. */
const EXIT_LOCKED = 75;

export interface EnsureOptions {
  readonly onProgress?: (line: string) => void;
  /** Known pieces; by default set-up is asked, and gets what is missing of these two. */
  readonly pieces?: StackPieces;
}

/**
 * The running stack of the state folder, started if there is none, restarted if it runs other code.
 * @throws SetupError when a piece is missing or the stack does not come up
 */
export async function ensureStack(env: Environment, options: EnsureOptions = {}): Promise<StackInfo> {
  const progress = options.onProgress ?? (() => undefined);
  const build = `${buildId(packageRoot())}${skillsMark(env.stateDir)}`;
  const running = await readStack(env);
  if (running !== null && running.build === build) {
    touch(env.stateDir);
    return running;
  }
  if (running !== null) {
    progress(`restarting the embedded stack: it runs ${running.build}, this is ${build}`);
    await stopStack(env);
  }
  makeOwnFolder({ path: env.stateDir, what: 'state folder', variable: 'VOIDBOX_STATE_DIR' });
  const pieces = options.pieces ?? (await resolveStackPieces(env, { install: true, onProgress: progress }));
  progress('starting the embedded stack');
  return startStack(env, pieces, build);
}

/** The stack that runs now and answers; null when there is none. */
export async function readStack(env: Environment): Promise<StackInfo | null> {
  const info = readStackFile(env.stateDir);
  if (info === null || !isSupervisor(info.supervisorPid)) return null;
  return (await answers(info.address)) ? info : null;
}

/** Stops the stack: attempts let go of their VMs, which go on, and the next stack takes them up. False when none ran. */
export async function stopStack(env: Environment): Promise<boolean> {
  const pid = readStackFile(env.stateDir)?.supervisorPid;
  if (pid === undefined || !isSupervisor(pid)) return false;
  process.kill(pid, 'SIGTERM');
  const until = Date.now() + STOP_LIMIT_MS;
  while (isSupervisor(pid)) {
    if (Date.now() > until) {
      // Its children are tied to it and end with it.
      process.kill(pid, 'SIGKILL');
      break;
    }
    await sleep(POLL_MS);
  }
  return true;
}

async function startStack(env: Environment, pieces: StackPieces, build: string): Promise<StackInfo> {
  let supervisor = spawnSupervisor(env, pieces, build);
  const until = Date.now() + START_LIMIT_MS;
  let lockAgainMs = Date.now() + LOCK_AGAIN_MS;
  while (Date.now() < until) {
    const info = await readStack(env);
    if (info !== null && info.build === build) return info;
    if (info !== null && supervisor.exitCode() === EXIT_LOCKED) return otherBuild(env, info, pieces, build);
    const code = supervisor.exitCode();
    if (code !== null && code !== EXIT_LOCKED) throw notStarted(env, `ended with ${code} while it started`, supervisor.lastWords());
    await sleep(POLL_MS);
    // Another client's supervisor has the lock, and gives it up if it can't start either: then ours says why.
    if (code === EXIT_LOCKED && Date.now() > lockAgainMs) {
      supervisor = spawnSupervisor(env, pieces, build);
      lockAgainMs = Date.now() + LOCK_AGAIN_MS;
    }
  }
  throw notStarted(env, `did not come up within ${START_LIMIT_MS / 1000} s`, supervisor.lastWords());
}

/** With the last words of what did not start: they say more than any exit code. */
function notStarted(env: Environment, how: string, words: string): SetupError {
  const room = readDiskRoom(env.stateDir);
  // A supervisor without room for its first file has no words either.
  const remedy = room.isLow
    ? `Make room on the disk of ${env.stateDir}, which has ${formatBytes(room.availableBytes)} free: \`voidbox prune\` removes old runs.`
    : `Its logs are in ${logsDir(env.stateDir)}.`;
  return new SetupError(`the embedded stack ${how}${words === '' ? '' : `:\n${words}`}`, remedy);
}

/** Two clients of different builds started at once and the other one was first: its stack is drained like any older one. */
async function otherBuild(env: Environment, other: StackInfo, pieces: StackPieces, build: string): Promise<StackInfo> {
  if (other.build === build) return other;
  await stopStack(env);
  return startStack(env, pieces, build);
}

interface SpawnedSupervisor {
  /** The end of what it and its children said; empty when they said nothing. */
  lastWords(): string;
  exitCode(): number | null;
}

function spawnSupervisor(env: Environment, pieces: StackPieces, build: string): SpawnedSupervisor {
  mkdirSync(logsDir(env.stateDir), { recursive: true, mode: 0o700 });
  const logFile = join(logsDir(env.stateDir), 'supervisor-start.log');
  // Appended: the client that comes second must not wipe out what the first one's supervisor says.
  const log = openSync(logFile, 'a', 0o600);
  if (fstatSync(log).size > START_LOG_BYTES) ftruncateSync(log);
  const logFrom = fstatSync(log).size;
  const script = join(packageRoot(), 'dist/workers/embedded/supervisor.js');
  const child = spawn(
    pieces.keeper,
    [
      'lock',
      '--file',
      stackLockFile(env.stateDir),
      '--',
      process.execPath,
      script,
      '--state-dir',
      env.stateDir,
      '--cache-dir',
      env.cacheDir,
      '--build',
      build,
      '--pieces',
      JSON.stringify(pieces),
    ],
    { detached: true, stdio: ['ignore', log, log], env: stackVariables(env), cwd: '/' },
  );
  closeSync(log);
  let exit: number | null = null;
  child.once('error', () => (exit = 127));
  child.once('exit', (code) => (exit = code ?? 128));
  child.unref();
  return { lastWords: () => lastLines(logFile, logFrom), exitCode: () => exit };
}

function lastLines(file: string, from: number): string {
  try {
    return readFileSync(file).subarray(from).toString('utf8').trimEnd().split('\n').slice(-LAST_LINES).map(shortened).join('\n');
  } catch {
    // A log that is gone says nothing; the error names its folder in any case.
    return '';
  }
}

/** The end of a line says what went wrong more often than its middle. */
function shortened(line: string): string {
  if (line.length <= LINE_CHARACTERS) return line;
  return `${line.slice(0, LINE_CHARACTERS / 2)} … ${line.slice(-LINE_CHARACTERS / 2)}`;
}

/** The stack outlives the shell that started it: it gets what programs need to run, and none of that shell's secrets. */
function stackVariables(env: Environment): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(env.variables)) {
    if (value !== undefined && /^(PATH|HOME|USER|LOGNAME|LANG|LC_.*|TZ|TMPDIR|XDG_.*|VOIDBOX_.*|NODE_EXTRA_CA_CERTS)$/.test(name)) kept[name] = value;
  }
  // Temporal's server asks for a name, and a uid without an entry in the list of users has none.
  kept['USER'] ??= `uid-${process.getuid?.()}`;
  return kept;
}

/** Tells the supervisor that somebody is about to use it. */
function touch(stateDir: string): void {
  const now = new Date();
  try {
    utimesSync(stackFile(stateDir), now, now);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/** A pid alone may be anybody's by now. */
function isSupervisor(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('workers/embedded/supervisor');
  } catch {
    return false;
  }
}

function answers(address: string): Promise<boolean> {
  const [host, port] = address.split(':');
  return new Promise((resolve) => {
    const socket = connect({ host: host ?? '127.0.0.1', port: Number(port) });
    const end = (result: boolean): void => {
      socket.destroy();
      resolve(result);
    };
    socket.setTimeout(1_000, () => end(false));
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
  });
}
