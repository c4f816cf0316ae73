/** Runs `initdb` once. */
import { spawn } from 'node:child_process';
import type { ChildCommand } from '../restarting-process.ts';

/** Three seconds on an idle machine. */
const LIMIT_MS = 120_000;
const MOST_CHARACTERS = 16_384;

/** @throws Error with the last output, if it fails, takes too long or `signal` ends it */
export async function runInitdb(
  { file, args, cwd }: ChildCommand,
  env: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  const child = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'pipe'], ...(cwd === undefined ? {} : { cwd }) });
  let output = '';
  const keep = (text: string): void => void (output = `${output}${text}`.slice(-MOST_CHARACTERS));
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', keep);
  const end = (): void => void child.kill('SIGKILL');
  const limit = setTimeout(end, LIMIT_MS);
  if (signal.aborted) end();
  signal.addEventListener('abort', end, { once: true });
  try {
    const how = await new Promise<string | null>((resolve) => {
      child.once('error', (error) => resolve(error.message));
      child.once('close', (code, name) => resolve(code === 0 ? null : name === null ? `exit code ${code}` : name));
    });
    if (how !== null) throw new Error(`initdb ended with ${how}:\n${output.trimEnd()}`);
  } finally {
    clearTimeout(limit);
    signal.removeEventListener('abort', end);
  }
}
