/** A project of an author of Temporal workers: its files, and the packages that it has installed. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findPackageRoot } from '../../../setup/package-root.ts';

/** A worker loads for half a minute on a machine with a load of 30. */
const READY_LIMIT_MS = 180_000;
const END_LIMIT_MS = 20_000;
const LAST_WORDS_CHARACTERS = 4_000;

export interface PluginProject {
  readonly folder: string;
  readonly stateDir: string;
  /** Starts `node worker.mjs ARGS` and waits until it says `ready`, or only starts it. */
  startWorker(args: readonly string[], options?: { readonly wait?: boolean }): Promise<WorkerChild>;
  /** Ends the workers that still live, too. */
  remove(): Promise<void>;
}

export interface WorkerChild {
  readonly pid: number;
  /** Returns the text that it printed last. */
  words(): string;
  /** Waits for its end. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

export function pluginProject(files: Readonly<Record<string, string>>): PluginProject {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-plugin-'));
  const stateDir = join(folder, 'state');
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(findPackageRoot(), join(folder, 'node_modules/voidbox'));
  symlinkSync(join(findPackageRoot(), 'node_modules/@temporalio'), join(folder, 'node_modules/@temporalio'));
  for (const [name, text] of Object.entries({ 'package.json': '{ "private": true }\n', ...files }))
    writeFileSync(join(folder, name), text);
  const workers = new Set<WorkerChild>();
  return {
    folder,
    stateDir,
    async startWorker(args, { wait = true } = {}) {
      const child = spawn(process.execPath, ['worker.mjs', ...args], {
        cwd: folder,
        env: { ...process.env, VOIDBOX_STATE_DIR: stateDir },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const worker = workerOf(child, () => workers.delete(worker));
      workers.add(worker);
      if (wait) await readyOf(worker, child);
      return worker;
    },
    async remove() {
      for (const worker of workers) await worker.end('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function workerOf(child: ChildProcess, onEnd: () => void): WorkerChild {
  let words = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk: Buffer) => (words = `${words}${chunk.toString()}`.slice(-LAST_WORDS_CHARACTERS)));
  const ended = once(child, 'close').then(onEnd);
  return {
    pid: child.pid!,
    words: () => words,
    async end(signal) {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill(signal);
      const kill = setTimeout(() => child.kill('SIGKILL'), END_LIMIT_MS);
      await ended;
      clearTimeout(kill);
    },
  };
}

async function readyOf(worker: WorkerChild, child: ChildProcess): Promise<void> {
  for (const limit = Date.now() + READY_LIMIT_MS; !worker.words().includes('RUNNING'); await sleep(50)) {
    if (Date.now() < limit && child.exitCode === null && child.signalCode === null) continue;
    await worker.end('SIGKILL');
    throw new Error(`the worker did not come up:\n${worker.words()}`);
  }
}
