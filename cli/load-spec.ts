import { readFile } from 'node:fs/promises';
import { dirname, relative, resolve } from 'node:path';
import type { Diagnostic } from '../domain/errors/diagnostic.ts';
import type { Plan } from '../domain/plan/plan.ts';
import { usageError } from './cli-error.ts';
import type { CliContext } from './context.ts';

export interface LoadedSpec {
  /** As it is shown to the user: relative where that is shorter. */
  readonly file: string;
  readonly text: string;
  /** Absolute; relative mounts stand below it. */
  readonly baseDir: string;
  /** Null when a diagnostic is an error. */
  readonly plan: Plan | null;
  readonly diagnostics: readonly Diagnostic[];
}

/** Reads and compiles a spec; `-` is standard input. Everything wrong with the text is in the diagnostics. */
export async function loadSpec(file: string, params: Readonly<Record<string, string>>, context: CliContext): Promise<LoadedSpec> {
  const fromStdin = file === '-';
  const path = fromStdin ? resolve(context.cwd, 'stdin') : resolve(context.cwd, file);
  const text = fromStdin ? Buffer.from(await context.readStdin()).toString('utf8') : await readSpecFile(path, file);
  const shown = fromStdin ? '<stdin>' : shortest(file, relative(context.cwd, path));
  const { compileText } = await import('../domain/spec/load.ts');
  const baseDir = dirname(path);
  const { plan, diagnostics } = compileText(text, shown, { baseDir, params });
  return { file: shown, text, baseDir, plan, diagnostics };
}

/** `--param region=north`, any number of times. */
export function parseParam(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const equals = text.indexOf('=');
  if (equals < 1) throw usageError(`--param wants NAME=VALUE, not \`${text}\``);
  return { ...before, [text.slice(0, equals)]: text.slice(equals + 1) };
}

async function readSpecFile(path: string, typed: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT') throw usageError(`there is no file \`${typed}\``, 'Write a first spec: voidbox init');
    if (code === 'EISDIR') throw usageError(`\`${typed}\` is a folder, not a spec`);
    if (code === 'EACCES') throw usageError(`\`${typed}\` may not be read by this user`);
    throw error;
  }
}

function shortest(first: string, second: string): string {
  return second !== '' && second.length < first.length ? second : first;
}
