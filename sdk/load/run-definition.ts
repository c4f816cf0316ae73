/** Runs a definition's code in a separate process. */
import { spawn } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { isBaseVariable } from '../../domain/step-machine/skill-variables.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { temporaryFolder } from '../../skill-kit/bundle/temporary-folder.ts';
import { REPLY_LIMIT_BYTES, type Reply } from './reply.ts';

/** How long the code of a definition may run. */
export const LOAD_LIMIT_MS = 30_000;

export interface RunDefinitionOptions {
  readonly cwd: string;
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly limitMs?: number;
}

/**
 * Runs the code. Its output goes to this process's standard error. The code sees only the environment variables that
 * every program needs: the value of another one would get into a plan, and so into history.
 * @param code  a bundle, as an ES module
 */
export async function runDefinition(
  code: string,
  { cwd, variables, limitMs = LOAD_LIMIT_MS }: RunDefinitionOptions,
): Promise<Reply> {
  const folder = await temporaryFolder();
  try {
    const file = join(folder, 'definition.mjs');
    await writeFile(file, code, { mode: 0o600 });
    return await replyFrom(file, cwd, variables, limitMs);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function replyFrom(
  file: string,
  cwd: string,
  variables: RunDefinitionOptions['variables'],
  limitMs: number,
): Promise<Reply> {
  const main = join(findPackageRoot(), 'dist/sdk/load/definition-process.js');
  const child = spawn(process.execPath, ['--enable-source-maps', main, file], {
    cwd,
    env: Object.fromEntries(Object.entries(variables).filter(([name]) => isBaseVariable(name))),
    stdio: ['ignore', 2, 2, 'pipe'],
    // Processes that it starts end with it.
    detached: true,
  });
  let ended: 'itself' | 'late' | 'too much' = 'itself';
  const end = (why: typeof ended): void => {
    ended = why;
    endGroup(child.pid);
  };
  const timer = setTimeout(() => end('late'), limitMs);
  const onExit = (): void => endGroup(child.pid);
  // It has its own process group, which signals from the terminal or a parent do not reach.
  const onSignal = (signal: NodeJS.Signals): void => {
    onExit();
    process.kill(process.pid, signal);
  };
  process.once('exit', onExit).once('SIGINT', onSignal).once('SIGTERM', onSignal).once('SIGHUP', onSignal);
  try {
    const [text, code] = await Promise.all([
      textOf(child.stdio[3] as Readable, () => end('too much')),
      new Promise<number | null>((resolve, reject) => {
        child.once('error', reject);
        child.once('exit', (status) => {
          // Another process may have inherited its pipe.
          endGroup(child.pid);
          resolve(status);
        });
      }),
    ]);
    return text === '' || ended !== 'itself' ? withoutReply(ended, code, limitMs) : (JSON.parse(text) as Reply);
  } finally {
    clearTimeout(timer);
    process.off('exit', onExit).off('SIGINT', onSignal).off('SIGTERM', onSignal).off('SIGHUP', onSignal);
  }
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function textOf(stream: Readable, tooMuch: () => void): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > REPLY_LIMIT_BYTES) {
      tooMuch();
      return '';
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Node's exit code for a module whose top level awaits a promise that can no longer settle. */
const UNSETTLED = 13;

function withoutReply(ended: string, code: number | null, limitMs: number): Reply {
  const reply = (message: string, remedy: string): Reply => ({ kind: 'unusable', message, remedy, place: null });
  if (ended === 'late')
    return reply(
      `the definition was not loaded within ${limitMs / 1_000} s`,
      'check for an endless loop, and each `await` outside of functions',
    );
  if (ended === 'too much')
    return reply(
      `the definition returns a spec with more than ${REPLY_LIMIT_BYTES} bytes`,
      'move data out of the spec: mount a folder, or let a command fetch it',
    );
  if (code === UNSETTLED)
    return reply('the definition waits for a promise that is never settled', 'check each `await` outside of functions');
  return reply(
    `the process that loads the definition ended with ${code ?? 'a signal'} before the definition was loaded`,
    'remove calls of `process.exit` from the definition; its output is printed above',
  );
}
