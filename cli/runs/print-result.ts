import { open } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import { formatBytes } from '../../domain/units/bytes.ts';
import { createUsageError } from '../../app/app-error.ts';
import { readUpTo } from '../../app/runs/result-text.ts';
import type { CliContext } from '../context.ts';
import { sanitize } from '../../domain/security/sanitize.ts';

/** More than this is not for reading on a terminal. */
const TERMINAL_BYTES = 64 * 1024;

/**
 * Writes a result to standard output: as it is into a pipe or a file, made safe and cut on a terminal.
 * @param hint what to type for all of it
 */
export async function printResult(
  ref: DataRef,
  artifacts: ArtifactStore,
  context: CliContext,
  hint: string,
): Promise<void> {
  await printBytes(artifacts.open(ref), ref.sizeBytes, context, hint);
}

/** Like `printResult`, for bytes that are part of an artifact. */
export async function printBytes(
  bytes: AsyncIterable<Uint8Array>,
  sizeBytes: number,
  context: CliContext,
  hint: string,
): Promise<void> {
  if (!context.stdout.isTerminal) {
    for await (const chunk of bytes) await context.stdout.write(chunk);
    return;
  }
  const text = sanitize(new TextDecoder().decode(await readUpTo(bytes, TERMINAL_BYTES)));
  await context.stdout.write(text.endsWith('\n') || text === '' ? text : `${text}\n`);
  if (sizeBytes > TERMINAL_BYTES)
    await context.stderr.write(`… ${formatBytes(sizeBytes - TERMINAL_BYTES)} more. All of it: ${hint}\n`);
}

/** @throws AppError when the file cannot be written */
export async function saveResult(
  ref: DataRef,
  artifacts: ArtifactStore,
  file: string,
  context: CliContext,
): Promise<void> {
  const path = resolve(context.cwd, file);
  const handle = await open(path, 'w').catch((error: unknown) => {
    throw createUsageError(`cannot write \`${file}\`: ${(error as Error).message}`);
  });
  try {
    for await (const chunk of artifacts.open(ref)) await handle.writeFile(chunk);
  } finally {
    await handle.close();
  }
}
