import { resolve } from 'node:path';
import { createUsageError } from '../../app/app-error.ts';
import type { Machine } from '../../app/machine.ts';
import { readNamedFile } from '../../files/named-file.ts';

/** The largest file that Node reads at once. */
const MOST_INPUT_BYTES = 2 ** 31 - 1;

/**
 * The bytes that `--input` names: a text, `@file`, or `-` for standard input.
 * @throws AppError if the file cannot be read
 */
export async function readTypedInput(argument: string, context: Machine): Promise<Uint8Array> {
  if (argument === '-') return await context.readStdin();
  if (!argument.startsWith('@')) return Buffer.from(argument);
  const file = argument.slice(1);
  try {
    return readNamedFile(resolve(context.cwd, file), MOST_INPUT_BYTES);
  } catch (error) {
    throw createUsageError(`cannot read the input file \`${file}\`: ${(error as Error).message}`);
  }
}
