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
export async function loadSpec(
  file: string,
  params: Readonly<Record<string, string>>,
  context: CliContext,
): Promise<LoadedSpec> {
  const fromStdin = file === '-';
  const path = fromStdin ? resolve(context.cwd, 'stdin') : resolve(context.cwd, file);
  const text = decode(
    fromStdin ? await context.readStdin() : await readSpecFile(path, file),
    fromStdin ? 'standard input' : `\`${file}\``,
  );
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

/** Bytes that are no text would reach commands as other arguments than were written. A byte order mark is left out. */
function decode(bytes: Uint8Array, what: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw usageError(`${what} is not UTF-8 text`, 'Save it as UTF-8: iconv -f LATIN1 -t UTF-8 FILE');
  }
}

async function readSpecFile(path: string, typed: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT') throw usageError(`there is no file \`${typed}\``, 'Write a first spec: voidbox init');
    if (code === 'EISDIR') throw usageError(`\`${typed}\` is a folder, not a spec`);
    if (code === 'EACCES') throw usageError(`\`${typed}\` may not be read by this user`);
    if (typeof code === 'string') throw usageError(`cannot read \`${typed}\`: ${(error as Error).message}`);
    throw error;
  }
}

function shortest(first: string, second: string): string {
  return second !== '' && second.length < first.length ? second : first;
}
