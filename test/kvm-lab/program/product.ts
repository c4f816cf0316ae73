/** The product as a user has it: its command line, and the stack that it starts, with a state folder of its own. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RunEvent } from '../../../domain/run/event.ts';
import { isVmm, readWords } from './deaths.ts';
import { descendantsOf } from '../../rig/vms/snapshot-folder.ts';
import type { KvmTask } from './task.ts';

/** The stack of a busy lab needs more than the time that `voidbox up` waits for it. */
const START_LIMIT_MS = 8 * 60_000;
const COMMAND_LIMIT_MS = 10 * 60_000;
/** The limit for what a run does next. */
const STEP_LIMIT_MS = 4 * 60_000;
const GONE_LIMIT_MS = 60_000;

export interface CommandEnd {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

type Body = RunEvent['body'];

export class Product {
  /** A folder for specs and repositories. */
  readonly folder = mkdtempSync(join(tmpdir(), 'voidbox-product-'));
  readonly #stateDir = join(this.folder, 'state');
  readonly #program: string;
  readonly #variables: NodeJS.ProcessEnv;

  constructor({ product, bootTimeoutMs }: KvmTask) {
    if (product === undefined) throw new Error('the task names no command line of the product');
    this.#program = product.program;
    this.#variables = {
      ...process.env,
      NO_COLOR: '1',
      VOIDBOX_BOOT_TIMEOUT_MS: String(bootTimeoutMs),
      VOIDBOX_CACHE_DIR: product.cacheDir,
      VOIDBOX_KERNEL_KIND: 'debian',
      VOIDBOX_STATE_DIR: this.#stateDir,
    };
  }

  async command(...args: readonly string[]): Promise<CommandEnd> {
    return await runProgram(process.execPath, [this.#program, ...args], this.folder, this.#variables);
  }

  /** Runs a command that must succeed, and returns its standard output. */
  async must(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.command(...args);
    if (code !== 0) throw new Error(`voidbox ${args.join(' ')} ended with ${code}: ${stdout}\n${stderr}`);
    return stdout;
  }

  async start(): Promise<void> {
    const until = Date.now() + START_LIMIT_MS;
    for (;;) {
      const { code, stderr } = await this.command('up');
      if (code === 0) return;
      if (Date.now() > until || !stderr.includes('did not start within')) throw new Error(`voidbox up: ${stderr}`);
    }
  }

  workerPid(): number {
    const stack = JSON.parse(readFileSync(join(this.#stateDir, 'stack.json'), 'utf8')) as {
      readonly workerPid: number;
    };
    return stack.workerPid;
  }

  /** Returns the events that are on disk now; a line that is just written is left out. */
  events(runId: string): readonly Body[] {
    const text = readText(join(this.#stateDir, 'runs', runId, 'events.jsonl'));
    return text
      .slice(0, text.lastIndexOf('\n') + 1)
      .split('\n')
      .filter((line) => line !== '')
      .flatMap((line) => (JSON.parse(line) as { readonly events: readonly RunEvent[] }).events)
      .map(({ body }) => body);
  }

  /** Returns the standard output of a stage. */
  output(runId: string, stage: string): string {
    return this.events(runId)
      .flatMap((body) =>
        body.type === 'output' && body.stage === stage && body.stream === 'stdout'
          ? [Buffer.from(body.data, body.encoding === 'utf8' ? 'utf8' : 'base64').toString()]
          : [],
      )
      .join('');
  }

  async until<T>(what: string, probe: () => T | null, limitMs = STEP_LIMIT_MS): Promise<T> {
    for (const end = Date.now() + limitMs; Date.now() < end;) {
      const value = probe();
      if (value !== null) return value;
      await sleep(50);
    }
    throw new Error(`waited ${limitMs} ms for ${what}; ${this.#describe()}`);
  }

  /** Returns the processes of the VM of a scope. */
  vmOf(scope: string): { readonly keeper: number; readonly vmm: number } | null {
    const vms = join(this.#stateDir, 'vms');
    for (const name of readdirSync(vms)) {
      if (!readText(join(vms, name, 'intent.json')).includes(scope)) continue;
      const text = readText(join(vms, name, 'keeper.json'));
      const keeper = text === '' ? null : (JSON.parse(text) as { readonly pid: number }).pid;
      const vmm = keeper === null ? undefined : descendantsOf(keeper).find(isVmm);
      if (keeper !== null && vmm !== undefined) return { keeper, vmm };
    }
    return null;
  }

  /** Ends the stack, and returns the processes of the product that are left. */
  async end(): Promise<readonly string[]> {
    const { code, stderr } = await this.command('down');
    const left = (): readonly string[] => this.#processes();
    for (const end = Date.now() + GONE_LIMIT_MS; left().length > 0 && Date.now() < end;) await sleep(100);
    const all = [...(code === 0 ? [] : [`voidbox down: ${stderr}`]), ...left()];
    await rm(this.folder, { recursive: true, force: true });
    return all;
  }

  /** Lists the keepers and VMMs of this machine, and every process that names the state folder. */
  #processes(): readonly string[] {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
      .map((name) => readWords(Number(name)).join(' '))
      .filter((words) => words.includes(this.#stateDir));
  }

  #describe(): string {
    const logs = join(this.#stateDir, 'logs');
    return readText(join(logs, 'worker.log')).slice(-1_500);
  }
}

/** Returns the file's text, which is empty if there is no such file. */
function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Runs a program to its end; a program that a signal ended has the code -1. */
export async function runProgram(
  program: string,
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<CommandEnd> {
  mkdirSync(cwd, { recursive: true });
  return await new Promise((resolve) => {
    execFile(program, [...args], { cwd, env, timeout: COMMAND_LIMIT_MS }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      resolve({ code, stdout, stderr });
    });
  });
}
