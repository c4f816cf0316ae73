/**
 * Ends what a bench has started, also if a signal kills the bench: a process of its own, the guard, reads a pipe of the bench
 * and learns by its end that the bench has ended. It is plain JavaScript, so that a test starts it without a compiler.
 */
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/**
 * The kinds of deeds at the end:
 * - `kill`: a process, with the time of its start, because a pid is used again
 * - `run`: a command, with a limit of a minute, for processes that outlive each terminal
 * - `remove`: a folder
 * @typedef {{ readonly kill: number, readonly startTime: string }} Kill
 * @typedef {{ readonly run: readonly string[], readonly env: Readonly<Record<string, string | undefined>> }} Run
 * @typedef {{ readonly remove: string }} Remove
 * @typedef {Kill | Run | Remove} LastDeed
 */

const RUN_LIMIT_MS = 60_000;
const LOOK_MS = 500;

/** @type {import('node:child_process').ChildProcess | null} */
let guard = null;
let count = 0;

/**
 * Registers what to do if this process ends. The guard begins with the last one.
 * @param {LastDeed} deed
 * @returns {() => void} forgets it
 */
export function doAtEnd(deed) {
  guard ??= startGuard();
  const id = (count += 1);
  tell(guard, { id, deed });
  return () => tell(/** @type {import('node:child_process').ChildProcess} */ (guard), { id, deed: null });
}

/**
 * Kills a child at the end of this process.
 * @param {number} pid
 * @returns {() => void} forgets it
 */
export function killAtEnd(pid) {
  return doAtEnd({ kill: pid, startTime: readStartTime(pid) ?? '' });
}

function startGuard() {
  endWithStarters();
  // In a session of its own it does not get the interrupt of the terminal.
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url)], {
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  child.unref();
  const { stdin } = child;
  if ('unref' in stdin && typeof stdin.unref === 'function') stdin.unref();
  return child;
}

/**
 * @param {import('node:child_process').ChildProcess} child
 * @param {{ readonly id: number, readonly deed: LastDeed | null }} message
 */
function tell(child, message) {
  child.stdin?.write(`${JSON.stringify(message)}\n`);
}

/** Ends this process after a kill of `npm` or of the bootstrap that started it, which do not pass on SIGKILL. */
function endWithStarters() {
  /** @type {{ readonly pid: number, readonly startTime: string | null }[]} */
  const starters = [];
  for (let pid = process.ppid; /\bnpm\b|bootstrap\.mjs/.test(readCommand(pid)); pid = readParent(pid))
    starters.push({ pid, startTime: readStartTime(pid) });
  const look = () => {
    if (starters.some(({ pid, startTime }) => readStartTime(pid) !== startTime)) process.exit(1);
  };
  setInterval(look, LOOK_MS).unref();
}

/** @param {number} pid @returns {readonly string[] | null} null: there is no such process. @source proc_pid_stat(5), from field 3 */
function readStat(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return null;
  }
}

/** @param {number} pid */
function readStartTime(pid) {
  return readStat(pid)?.[19] ?? null;
}

/** @param {number} pid */
function readParent(pid) {
  return Number(readStat(pid)?.[1] ?? 0);
}

/** @param {number} pid */
function readCommand(pid) {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

/** @param {LastDeed} deed */
function carryOut(deed) {
  if ('kill' in deed) {
    if (readStartTime(deed.kill) === deed.startTime) process.kill(deed.kill, 'SIGKILL');
  } else if ('run' in deed) {
    const [program = '', ...args] = deed.run;
    spawnSync(program, args, { env: deed.env, stdio: 'ignore', timeout: RUN_LIMIT_MS, killSignal: 'SIGKILL' });
  } else rmSync(deed.remove, { recursive: true, force: true });
}

async function guardBench() {
  /** @type {Map<number, LastDeed>} */
  const deeds = new Map();
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, deed } = JSON.parse(line);
    if (deed === null) deeds.delete(id);
    else deeds.set(id, deed);
  }
  for (const deed of [...deeds.values()].reverse())
    try {
      carryOut(deed);
    } catch (error) {
      process.stderr.write(`after the end of the bench: ${String(error)}\n`);
    }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await guardBench();
