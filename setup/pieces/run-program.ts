/** Runs a program for set-up, and collects its output. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import type { Environment } from '../environment.ts';

export interface ProgramResult {
  /** Null if a signal or the time limit ended it. */
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ProgramOptions {
  readonly cwd?: string;
  /** Variables that are added to the environment's own. */
  readonly variables?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  /** Called twice a second; a returned text ends the program, and is the reason. */
  readonly reasonToEnd?: (pid: number) => Promise<string | null>;
  /** Called for each line of standard error and output when it arrives. */
  readonly onLine?: (line: string) => void;
}

const DEFAULT_TIMEOUT_MS = 30_000;
const GUARD_INTERVAL_MS = 500;
/** The time for the last output of a program that was ended. */
const LAST_OUTPUT_MS = 2_000;

/**
 * Returns the program's output and exit code. `stderr` also contains the reason if the program was ended. A program
 * that cannot be started ends with 127.
 */
export function runProgram(
  env: Environment,
  program: string,
  args: readonly string[],
  options: ProgramOptions = {},
): Promise<ProgramResult> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      cwd: options.cwd,
      env: { ...env.variables, LC_ALL: 'C.UTF-8', ...options.variables },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const watch = watchProgram(child, program, options);
    let stdout = '';
    let stderr = '';
    let partial = '';
    const addText = (text: string): void => {
      if (options.onLine === undefined) return;
      const lines = (partial + text).split('\n');
      partial = lines.pop() ?? '';
      for (const line of lines) options.onLine(line);
    };
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      addText(text);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
      addText(text);
    });
    const finish = (exitCode: number | null, last: string | null): void => {
      watch.stop();
      resolve({ exitCode, stdout, stderr: last === null ? stderr : `${stderr.trimEnd()}\n${last}` });
    };
    child.once('error', (error) => finish(127, error.message));
    child.once('close', (exitCode) => {
      const because = watch.endedBecause();
      // A program can exit with 0 when its limit ends its children.
      finish(because === null ? exitCode : null, because);
    });
  });
}

/** Ends the program and its children at the time limit, or when its caller returns a reason. */
function watchProgram(
  child: ChildProcessByStdio<null, Readable, Readable>,
  program: string,
  { timeoutMs = DEFAULT_TIMEOUT_MS, reasonToEnd }: ProgramOptions,
): { stop(): void; endedBecause(): string | null } {
  let because: string | null = null;
  const end = (why: string): void => {
    if (because !== null || child.pid === undefined) return;
    because = `${program} was ended: ${why}`;
    // After a program's exit its pid can belong to another program, although a child still holds the output open.
    if (child.exitCode === null && child.signalCode === null) killTree(child.pid);
    // Another process may hold the output open; its end is not awaited.
    setTimeout(() => [child.stdout, child.stderr].forEach((stream) => stream.destroy()), LAST_OUTPUT_MS).unref();
  };
  const limit = setTimeout(() => end(`it took longer than ${timeoutMs / 1000} s`), timeoutMs);
  const guard = setInterval(() => {
    if (child.pid !== undefined) void reasonToEnd?.(child.pid).then((why) => why !== null && end(why));
  }, GUARD_INTERVAL_MS);
  return {
    stop: () => {
      clearTimeout(limit);
      clearInterval(guard);
    },
    endedBecause: () => because,
  };
}

/**
 * Children come first, because their list disappears with their parent. A parent is stopped before: otherwise it starts
 * more children, or its next command, between the two.
 */
function killTree(pid: number): void {
  sendSignal(pid, 'SIGSTOP');
  for (const child of childrenOf(pid)) killTree(child);
  sendSignal(pid, 'SIGKILL');
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // The process has ended.
  }
}

function childrenOf(pid: number): readonly number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    return text
      .split(' ')
      .filter((part) => part !== '')
      .map(Number);
  } catch {
    return [];
  }
}

/** Returns the last lines of a failed program's output, for a message. */
export function cutToLastLines(result: ProgramResult, count = 15): string {
  const text = `${result.stdout}\n${result.stderr}`.trimEnd();
  return text.split('\n').slice(-count).join('\n').trim();
}
