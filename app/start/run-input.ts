import { resolve } from 'node:path';
import type { InlineOrRef } from '../../activities/contract.ts';
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import { PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { readNamedFile } from '../../files/named-file.ts';
import { usageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';

/**
 * What `--input` says: a text, `@file`, or `-` for standard input. Small text travels with the run, everything
 * else by its hash.
 * @throws AppError when the file cannot be read
 */
export async function readRunInput(argument: string, artifacts: ArtifactStore, context: Machine): Promise<InlineOrRef> {
  const bytes = await inputBytes(argument, context);
  const text = asText(bytes);
  if (text !== null && bytes.byteLength <= PLAN_LIMITS.inlineBytes) return { kind: 'inline', text };
  return {
    kind: 'ref',
    ref: await artifacts.put(once(bytes), text === null ? 'application/octet-stream' : 'text/plain; charset=utf-8'),
  };
}

/** The largest file that Node reads at once. */
const MOST_INPUT_BYTES = 2 ** 31 - 1;

async function inputBytes(argument: string, context: Machine): Promise<Uint8Array> {
  if (argument === '-') return await context.readStdin();
  if (!argument.startsWith('@')) return Buffer.from(argument);
  const file = argument.slice(1);
  try {
    return readNamedFile(resolve(context.cwd, file), MOST_INPUT_BYTES);
  } catch (error) {
    throw usageError(`cannot read the input file \`${file}\`: ${(error as Error).message}`);
  }
}

export async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/** Null when the bytes are not UTF-8: text that is not kept to the byte would be another input. */
export function asText(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
