/** Runs a program for set-up and keeps what it wrote. */
import { spawn } from 'node:child_process';
import type { Environment } from './environment.ts';

export interface ProgramResult {
  /** Null when a signal or the time limit ended it. */
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ProgramOptions {
  readonly cwd?: string;
  /** Added to the environment's own variables. */
  readonly variables?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  /** Called for each line of standard error and output as it comes. */
  readonly onLine?: (line: string) => void;
}

const DEFAULT_TIMEOUT_MS = 30_000;

/** What the program wrote and how it ended; a program that can't be started ends with 127. */
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
      timeout: options.timeoutMs ?? DEFAULT_TIMEOUT_MS,
      killSignal: 'SIGKILL',
    });
    let stdout = '';
    let stderr = '';
    let partial = '';
    const take = (text: string): void => {
      if (options.onLine === undefined) return;
      const lines = (partial + text).split('\n');
      partial = lines.pop() ?? '';
      for (const line of lines) options.onLine(line);
    };
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      take(text);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
      take(text);
    });
    child.once('error', (error) => resolve({ exitCode: 127, stdout, stderr: `${stderr}${error.message}` }));
    child.once('close', (exitCode) => resolve({ exitCode, stdout, stderr }));
  });
}

/** The last lines of what a failed program wrote, for a message. */
export function lastLines(result: ProgramResult, count = 15): string {
  const text = `${result.stdout}\n${result.stderr}`.trimEnd();
  return text.split('\n').slice(-count).join('\n').trim();
}
