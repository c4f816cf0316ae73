/** The embedded stack as its clients see it. Light: loads neither worker nor Temporal client. */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { formatBytes } from '../../domain/units/bytes.ts';
import type { Environment } from '../../setup/environment.ts';
import type { StackPieces } from '../../setup/pieces/host-pieces.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { requireOpenFiles } from '../../setup/machine/require-open-files.ts';
import { resolveStackPieces, SetupError } from '../../setup/resolve.ts';
import { readDiskRoom } from '../../store/disk-room.ts';
import { requireStateFormat } from '../../store/state-format.ts';
import { openStateFolder } from '../vms/state-folder.ts';
import { mountsMark } from './mounts-mark.ts';
import { buildId } from './build-id.ts';
import { askStack } from './control-client.ts';
import { isLockHolder, readLockHolder } from './lock-holder.ts';
import { skillsMark } from './skill-paths.ts';
import { EXIT_LOCKED, spawnSupervisor, type SpawnedSupervisor } from './spawn-supervisor.ts';
import { describeMove, readStackPorts } from './stack-ports.ts';
import { logsDir, readStackFile, type StackInfo } from './stack-info.ts';

export type { StackInfo } from './stack-info.ts';

/** A loaded machine needs its time: Node, the server and the worker start one after the other. */
const START_LIMIT_MS = 90_000;
const STOP_LIMIT_MS = 60_000;
const POLL_MS = 50;
const LOCK_AGAIN_MS = 1_000;
/** A supervisor creates its socket within this time: at its start, or again after the socket was removed. */
const SOCKET_LIMIT_MS = 2_000;
/** A supervisor that neither answers nor publishes anything for this long is ended. */
const SILENT_LIMIT_MS = 30_000;
/** The time in which commands of another build may finish; after it they find the new stack. */
const YIELD_LIMIT_MS = 30_000;
const YIELD_AGAIN_MS = 200;
/** The number of tries against another build that also takes the stack; after it this build gives up. */
const MAX_DRAINS = 8;

export interface EnsureOptions {
  readonly onProgress?: (line: string) => void;
  /** Known pieces; by default set-up is asked, and gets what is missing of these two. */
  readonly pieces?: StackPieces;
}

/**
 * Returns the running stack of the state folder. Starts it if it does not run, and restarts it if it runs other code.
 * No other build takes it away during the next seconds.
 * @throws SetupError when a piece is missing or the stack does not come up; CodedError `host/state-format`
 */
export async function ensureStack(env: Environment, options: EnsureOptions = {}): Promise<StackInfo> {
  const progress = options.onProgress ?? (() => undefined);
  // Check the format first: in a folder of another format, no stack is used and no file is read.
  requireStateFormat(env.stateDir);
  const build = `${buildId(findPackageRoot())}${skillsMark(env.stateDir)}${mountsMark(env.stateDir)}`;
  const running = await useStack(env, build);
  if (running !== null) return running;
  requireOpenFiles('The embedded stack');
  openStateFolder(env.stateDir);
  const pieces = options.pieces ?? (await resolveStackPieces(env, { install: true, onProgress: progress }));
  return await startStack({ env, pieces, build, progress });
}

/** The running stack, if it is of this build, kept from other builds for a while. */
async function useStack(env: Environment, build: string): Promise<StackInfo | null> {
  const running = await readStack(env);
  if (running?.build !== build) return null;
  const asked = await askStack(env.stateDir, 'use');
  // The supervisor does not answer, so use what the lock and the file show.
  if (asked.kind === 'silent') return running;
  return asked.kind === 'answer' && asked.answer.phase === 'up' ? asked.answer.info : null;
}

/** Returns the stack that runs and answers now, or null if there is no such stack. */
export async function readStack(env: Environment): Promise<StackInfo | null> {
  const until = Date.now() + SOCKET_LIMIT_MS;
  for (;;) {
    const asked = await askStack(env.stateDir, 'status');
    if (asked.kind === 'answer') return asked.answer.phase === 'up' ? await keepIfReachable(asked.answer.info) : null;
    const holder = readLockHolder(env.stateDir);
    if (holder === null) return null;
    // The kernel shows that the supervisor lives. Its socket may not exist yet, or it is stopped, or it is an old build
    // without one. Then use the file.
    if (asked.kind === 'silent' || Date.now() > until)
      return await keepIfReachable(readPublished(holder, env.stateDir));
    await sleep(POLL_MS);
  }
}

function readPublished(holder: number, stateDir: string): StackInfo | null {
  const info = readStackFile(stateDir);
  return info?.supervisorPid === holder ? info : null;
}

async function keepIfReachable(info: StackInfo | null): Promise<StackInfo | null> {
  return info !== null && (await isAnswering(info.address)) ? info : null;
}

/**
 * Stops the stack and returns false if none ran. Attempts detach from their VMs, which keep running until the next
 * stack takes them over.
 */
export async function stopStack(env: Environment): Promise<boolean> {
  const asked = await askStack(env.stateDir, 'stop');
  const pid = asked.kind === 'answer' ? asked.answer.pid : readLockHolder(env.stateDir);
  if (pid === null) return false;
  if (asked.kind !== 'answer' || asked.answer.busy === true) endKindly(pid);
  await waitForEnd(env, pid);
  return true;
}

/** Ends a supervisor that does not answer or is busy. SIGCONT wakes a suspended one, so that it can end. */
function endKindly(pid: number): void {
  for (const signal of ['SIGTERM', 'SIGCONT'] as const) signalIfThere(pid, signal);
}

function signalIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/**
 * Waits until the supervisor `pid` has ended. It ignores a new supervisor that another command may have started since
 * then.
 */
async function waitForEnd(env: Environment, pid: number): Promise<void> {
  const until = Date.now() + STOP_LIMIT_MS;
  for (;;) {
    const isThere = isLockHolder(env.stateDir, pid);
    if (!isThere && !(await isStackProcess(env, pid))) return;
    if (Date.now() > until) {
      // Its children are tied to it and end with it.
      if (isThere) signalIfThere(pid, 'SIGKILL');
      return;
    }
    await sleep(POLL_MS);
  }
}

async function isStackProcess(env: Environment, pid: number): Promise<boolean> {
  const asked = await askStack(env.stateDir, 'status');
  return asked.kind === 'answer' && asked.answer.pid === pid;
}

interface Start {
  readonly env: Environment;
  readonly pieces: StackPieces;
  readonly build: string;
  readonly progress: (line: string) => void;
}

async function startStack(start: Start): Promise<StackInfo> {
  const { env, pieces, build, progress } = start;
  let supervisor: SpawnedSupervisor | null = null;
  let until = Date.now() + START_LIMIT_MS;
  let lockAgainMs = 0;
  let drains = 0;
  let silentSinceMs = Date.now();
  const portsBefore = readStackPorts(env.stateDir);
  while (Date.now() < until) {
    const ready = await useStack(env, build);
    if (ready !== null) {
      const move = describeMove(portsBefore, ready);
      if (move !== null) progress(move);
      return ready;
    }
    const other = await findOtherBuild(env, build);
    if (other !== null && drains < MAX_DRAINS) {
      progress(describeRestart(other, build));
      await drain(env, build);
      drains += 1;
      [supervisor, until, silentSinceMs] = [null, Date.now() + START_LIMIT_MS, Date.now()];
      continue;
    }
    const code = supervisor?.exitCode() ?? null;
    // 0: it was up, and another client has stopped it before this one saw it.
    if (supervisor !== null && code !== null && code !== EXIT_LOCKED && code !== 0)
      throw createStartError(env, `ended with ${code} while it started`, supervisor.lastWords());
    // Another client's supervisor has the lock. It releases the lock if it cannot start either; then ours reports the
    // reason.
    if (supervisor === null || (code !== null && Date.now() > lockAgainMs)) {
      if (supervisor === null) progress('starting the embedded stack');
      supervisor = spawnSupervisor(env, pieces, build);
      lockAgainMs = Date.now() + LOCK_AGAIN_MS;
    }
    if (code !== EXIT_LOCKED || (await askStack(env.stateDir, 'status')).kind === 'answer') silentSinceMs = Date.now();
    else if (Date.now() - silentSinceMs > SILENT_LIMIT_MS) await stopStack(env);
    await sleep(POLL_MS);
  }
  throw createStartError(env, `did not start within ${START_LIMIT_MS / 1000} s`, supervisor?.lastWords() ?? '');
}

/** If the code is the same, only the settings of `voidbox up` differ. */
function describeRestart(other: string, build: string): string {
  const codeOf = (text: string): string => text.split('+')[0]!;
  if (codeOf(other) !== codeOf(build)) return `restarting the embedded stack: it runs ${other}, this is ${build}`;
  return 'restarting the embedded stack, because its step machines or allowed mounts have changed; open runs continue';
}

/** The build of a stack that is up and runs other code. */
async function findOtherBuild(env: Environment, build: string): Promise<string | null> {
  const running = await readStack(env);
  return running === null || running.build === build ? null : running.build;
}

/** Ends a stack of another build than `build` when no command is about to use it. */
async function drain(env: Environment, build: string): Promise<void> {
  const until = Date.now() + YIELD_LIMIT_MS;
  while (Date.now() < until) {
    // Another command of this build may have been quicker.
    const now = await askStack(env.stateDir, 'status');
    if (now.kind === 'answer' && now.answer.build === build) return;
    const asked = await askStack(env.stateDir, 'yield');
    // Older than sockets, or it can't answer.
    if (asked.kind !== 'answer') break;
    if (!asked.answer.inUse) return await waitForEnd(env, asked.answer.pid);
    await sleep(YIELD_AGAIN_MS);
  }
  await stopStack(env);
}

/** Contains the last output of the process that did not start, because that explains more than an exit code. */
function createStartError(env: Environment, how: string, words: string): SetupError {
  const room = readDiskRoom(env.stateDir);
  // A supervisor without room for its first file leaves no output either.
  const remedy = room.isLow
    ? `Free space on the disk of ${env.stateDir}, which has ${formatBytes(room.availableBytes)} free: \`voidbox prune\` deletes old runs.`
    : `Its logs are in ${logsDir(env.stateDir)}.`;
  return new SetupError(`the embedded stack ${how}${words === '' ? '' : `:\n${words}`}`, remedy);
}

function isAnswering(address: string): Promise<boolean> {
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
