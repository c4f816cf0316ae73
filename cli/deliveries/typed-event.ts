/** An event as a person types it: the file of its payload, and its headers. */
import { resolve } from 'node:path';
import { InvalidArgumentError } from 'commander';
import { createUsageError } from '../../app/app-error.ts';
import { MOST_PAYLOAD_BYTES } from '../../domain/delivery/delivery.ts';
import { readNamedFile } from '../../files/named-file.ts';
import type { CliContext } from '../context.ts';

/** @param file  - for standard input @throws AppError `usage` */
export async function readPayload(file: string, context: CliContext): Promise<Uint8Array> {
  const bytes = file === '-' ? await context.readStdin() : readFile(file, context);
  if (bytes.byteLength <= MOST_PAYLOAD_BYTES) return bytes;
  throw createUsageError(
    `the payload \`${file}\` has ${bytes.byteLength} bytes, at most ${MOST_PAYLOAD_BYTES} are allowed`,
  );
}

function readFile(file: string, { cwd }: CliContext): Uint8Array {
  try {
    return readNamedFile(resolve(cwd, file), MOST_PAYLOAD_BYTES);
  } catch (error) {
    throw createUsageError(`cannot read the payload \`${file}\`: ${(error as Error).message}`);
  }
}

/** Parses a repeatable option NAME:VALUE; names are in lower case. */
export function addHeader(
  text: string,
  before: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const [, name, value] = /^([\w-]{1,64}):\s*([\x20-\x7e]{0,1024})$/.exec(text) ?? [];
  if (name === undefined) throw new InvalidArgumentError('It must be NAME:VALUE in ASCII.');
  return { ...before, [name.toLowerCase()]: value! };
}
