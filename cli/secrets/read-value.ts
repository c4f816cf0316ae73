/** Reads the value of a secret from standard input, a file or a terminal. No option has a value: other users see command lines. */
import { createUsageError } from '../../app/app-error.ts';
import { FileRefusal, readFileWithin } from '../../files/open-file.ts';
import { MOST_SECRET_BYTES } from '../../store/triggers.ts';
import type { CliContext } from '../context.ts';

/** The end of a line of a piped value is not part of it. */
const END_BYTES = 2;

/**
 * @param file  the path of a file with exactly the value; absent: standard input
 * @throws AppError, which never contains the value
 */
export async function readSecretValue(context: CliContext, file: string | undefined): Promise<string> {
  if (file !== undefined) return await readValueFile(context, file);
  if (context.hasTerminalInput) {
    const typed = await context.askSecret('Value:');
    if (typed === null || typed === '')
      throw createUsageError('no value was entered', 'Enter it, or pipe it: voidbox secret set NAME < FILE');
    return typed;
  }
  return decode(await readPiped(context), 'standard input').replace(/\r?\n$/, '');
}

async function readValueFile({ warn }: CliContext, file: string): Promise<string> {
  let bytes: Uint8Array;
  try {
    bytes = readFileWithin(file, { roots: null, mostBytes: MOST_SECRET_BYTES });
  } catch (error) {
    if (!(error instanceof FileRefusal)) throw error;
    throw createUsageError(`--file ${file} cannot be read: ${error.message}`, 'Name a file with the value.');
  }
  const text = decode(bytes, `--file ${file}`);
  // A key of several lines, such as PEM, needs its last end of a line.
  if (/^[^\n]+\n$/.test(text))
    await warn(`the value includes the end of the line of ${file}; without it: voidbox secret set NAME < ${file}`);
  return text;
}

async function readPiped(context: CliContext): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const enough = new AbortController();
  for await (const chunk of context.openStdin(enough.signal)) {
    size += chunk.length;
    chunks.push(chunk);
    if (size > MOST_SECRET_BYTES + END_BYTES) enough.abort();
  }
  if (size > MOST_SECRET_BYTES + END_BYTES)
    throw createUsageError(
      `standard input has more than ${MOST_SECRET_BYTES} bytes, which is the most of a secret`,
      'Pipe only the value.',
    );
  return Buffer.concat(chunks);
}

function decode(bytes: Uint8Array, where: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw createUsageError(
      `${where} is not UTF-8 text, which the value of a variable is`,
      'Store it as base64, and decode it in the command.',
    );
  }
}
