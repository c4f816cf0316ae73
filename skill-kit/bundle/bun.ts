/** Executables without Node, made by bun. */
import { execFile } from 'node:child_process';
import { dirname } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';

export const BUN_TARGETS = ['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64'] as const;
export type BunTarget = (typeof BUN_TARGETS)[number];
export const DEFAULT_TARGETS: readonly BunTarget[] = ['darwin-arm64', 'linux-x64'];

const LIMIT_MS = 600_000;

export function isBunTarget(text: string): text is BunTarget {
  return BUN_TARGETS.some((target) => target === text);
}

/** Returns the arguments of `bun`. */
export function compileArguments(code: string, target: BunTarget, executable: string): readonly string[] {
  return ['build', '--compile', `--target=bun-${target}`, '--outfile', executable, code];
}

export interface Compilation {
  readonly bun: string;
  /** Path of a module that needs no other. */
  readonly code: string;
  readonly targets: readonly BunTarget[];
  /** Where the executable for a target goes. */
  executableOf(target: BunTarget): string;
  readonly interrupted: AbortSignal;
}

/** @throws CodedError `skill/bun` with bun's messages for every target that failed */
export async function compileAll({ bun, code, targets, executableOf, interrupted }: Compilation): Promise<void> {
  const failures: string[] = [];
  // One at a time: each holds a copy of the runtime in memory.
  for (const target of targets) {
    const complaint = await run(bun, compileArguments(code, target, executableOf(target)), dirname(code), interrupted);
    if (complaint !== null) failures.push(`${target}: ${complaint}`);
  }
  if (failures.length > 0)
    throw new CodedError(
      'skill/bun',
      `${bun} made no executable for ${failures.length} of ${targets.length} targets:\n${failures.join('\n')}`,
    );
}

/** @param cwd  bun puts files there while it works, so it is the folder that is being made */
function run(program: string, args: readonly string[], cwd: string, signal: AbortSignal): Promise<string | null> {
  return new Promise((resolve) => {
    execFile(
      program,
      [...args],
      { cwd, signal, timeout: LIMIT_MS, maxBuffer: 16 * 1024 * 1024 },
      (error, stdout, stderr) => {
        resolve(error === null ? null : stderr.trim() || stdout.trim() || error.message);
      },
    );
  });
}
