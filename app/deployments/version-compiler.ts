/**
 * Compiles versions in a process of their own, with limits of time and memory. The process is kept for a while, because
 * its start takes longer than most compilations. Equal requests get the answer of the first.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import { setTimeout as sleep } from 'node:timers/promises';
import { toCanonicalJson } from '../../domain/units/canonical-json.ts';
import type { Environment } from '../../setup/environment.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { AppError } from '../app-error.ts';
import type { CompileAnswer, CompileRequest } from './compile-request.ts';

export const COMPILE_LIMITS = {
  /** As long as the start of a whole stack: a process that starts slowly on a busy host says nothing about the spec. */
  startMs: 90_000,
  /** One compilation; a process that takes longer is killed. */
  answerMs: 20_000,
  /** The heap of JavaScript. */
  memoryMib: 256,
  /** A process that has used more ends after its answer; the kernel kills it at twice as much, also without a parent. */
  cpuSeconds: 60,
  /** A process without a request ends. */
  idleMs: 60_000,
  /** Compiled answers that are kept. */
  kept: 32,
} as const;

const ERROR_CHARACTERS = 4_096;
/** `USER_HZ` of Linux. */
const TICKS_PER_SECOND = 100;

export interface VersionCompiler {
  /** @throws AppError `deploy/too-costly` for a version that exceeds a limit */
  compile(request: CompileRequest): Promise<CompileAnswer>;
  close(): void;
}

export interface VersionCompilerOptions {
  readonly env: Pick<Environment, 'stateDir' | 'cacheDir' | 'path'>;
  /** Other limits are for tests. */
  readonly limits?: Limits;
}

export function createVersionCompiler({ env, limits = COMPILE_LIMITS }: VersionCompilerOptions): VersionCompiler {
  const kept = new Map<string, CompileAnswer>();
  let child: Compiling | null = null;
  let idle: NodeJS.Timeout | undefined;
  let last: Promise<unknown> = Promise.resolve();
  const end = (): void => {
    child?.kill();
    child = null;
  };
  const ask = async (request: CompileRequest): Promise<CompileAnswer> => {
    clearTimeout(idle);
    if (child?.hasEnded === true) child = null;
    child ??= new Compiling(env, limits);
    const used = child;
    try {
      return await used.ask(request);
    } catch (error) {
      end();
      throw error;
    } finally {
      if (used.hasEnded || used.readCpuSeconds() > limits.cpuSeconds) end();
      else idle = setTimeout(end, limits.idleMs).unref();
    }
  };
  return {
    async compile(request) {
      const key = toCanonicalJson(request);
      const known = kept.get(key);
      if (known !== undefined) return known;
      const own = last.then(() => ask(request));
      // Its caller has the failure; the next request does not depend on it.
      last = own.catch(() => undefined);
      const answer = await own;
      // A refusal may have a reason outside of the version, such as a full disk.
      if (answer.kind === 'compiled') {
        kept.set(key, answer);
        for (const [oldest] of kept) if (kept.size > limits.kept) kept.delete(oldest);
      }
      return answer;
    },
    close() {
      clearTimeout(idle);
      end();
    },
  };
}

type Message = CompileAnswer | { readonly kind: 'ready' } | { readonly kind: 'bug'; readonly message: string };

/** The end of the process, with its code or signal and the end of what it wrote. */
interface Ended {
  readonly kind: 'ended';
  readonly how: string;
  readonly stderr: string;
  readonly isOutOfMemory: boolean;
}

const OUT_OF_MEMORY = /heap out of memory|Allocation failed/;

type Limits = Readonly<Record<keyof typeof COMPILE_LIMITS, number>>;

class Compiling {
  readonly #child: ChildProcess;
  readonly #limits: Limits;
  readonly #startedAtMs = performance.now();
  readonly #heard: (Message | Ended)[] = [];
  #wake: () => void = () => undefined;
  #stderr = '';
  #isOutOfMemory = false;
  #hasEnded = false;
  #isReady = false;

  constructor(env: VersionCompilerOptions['env'], limits: Limits) {
    this.#limits = limits;
    const main = join(findPackageRoot(), 'dist/app/deployments/compile-main.js');
    const node = [process.execPath, `--max-old-space-size=${limits.memoryMib}`, main];
    this.#child = spawn('/bin/sh', ['-c', `ulimit -t ${limits.cpuSeconds * 2}; exec "$@"`, 'sh', ...node], {
      cwd: '/',
      env: { PATH: env.path, VOIDBOX_STATE_DIR: env.stateDir, VOIDBOX_CACHE_DIR: env.cacheDir },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      serialization: 'json',
    });
    const decoder = new StringDecoder();
    this.#child.stderr!.on('data', (bytes: Buffer) => {
      const text = this.#stderr + decoder.write(bytes);
      // A stack follows the reason, and may be longer than what is kept.
      this.#isOutOfMemory ||= OUT_OF_MEMORY.test(text);
      this.#stderr = text.slice(-ERROR_CHARACTERS);
    });
    const receive = (message: Message | Ended): void => {
      this.#heard.push(message);
      this.#wake();
    };
    this.#child.on('message', (message: Message) => receive(message));
    const end = (how: string): void => {
      this.#hasEnded = true;
      receive({ kind: 'ended', how, stderr: this.#stderr, isOutOfMemory: this.#isOutOfMemory });
    };
    this.#child.on('error', (error) => end(error.message));
    this.#child.on('close', (code, signal) => end(signal === null ? `exit code ${code}` : `signal ${signal}`));
    // The service ends without it.
    this.#child.unref();
    this.#child.channel?.unref();
    (this.#child.stderr as unknown as { unref(): void }).unref();
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }

  /** The CPU time that the process has used; 0 if it has ended. */
  readCpuSeconds(): number {
    try {
      const stat = readFileSync(`/proc/${this.#child.pid}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
    } catch {
      return 0;
    }
  }

  /** @throws AppError `deploy/too-costly`; Error for a bug */
  async ask(request: CompileRequest): Promise<CompileAnswer> {
    this.#child.ref();
    try {
      const { startMs, answerMs } = this.#limits;
      if (!this.#isReady)
        await this.#awaitMessage(
          startMs,
          () => new Error(`the compiler of deployments did not start within ${startMs / 1_000} s`),
        );
      this.#isReady = true;
      this.#child.send(request);
      const answer = await this.#awaitMessage(answerMs, () =>
        createCostError(`it takes more than ${answerMs / 1_000} s`),
      );
      if (answer.kind === 'ready' || answer.kind === 'bug')
        throw new Error(`the compiler of deployments: ${answer.kind === 'bug' ? answer.message : answer.kind}`);
      return answer;
    } finally {
      this.#child.unref();
    }
  }

  /** A process that another one killed, such as the kernel without memory, has not lived long enough for its limit. */
  #mayHaveUsedItsCpu(): boolean {
    const livedSeconds = (performance.now() - this.#startedAtMs) / 1_000;
    return livedSeconds * availableParallelism() >= this.#limits.cpuSeconds * 2;
  }

  async #awaitMessage(limitMs: number, createLateError: () => Error): Promise<Message> {
    const limit = new AbortController();
    const late = sleep(limitMs, undefined, { signal: limit.signal }).then(
      () => true,
      () => false,
    );
    try {
      while (this.#heard.length === 0) {
        const woken = new Promise<false>((resolve) => (this.#wake = () => resolve(false)));
        if (await Promise.race([woken, late])) throw createLateError();
      }
    } finally {
      limit.abort();
    }
    const message = this.#heard.shift()!;
    if (message.kind !== 'ended') return message;
    const { how, stderr } = message;
    if (message.isOutOfMemory) throw createCostError(`it takes more than ${this.#limits.memoryMib} MiB of memory`);
    if (how === 'signal SIGXCPU' || (how === 'signal SIGKILL' && this.#mayHaveUsedItsCpu()))
      throw createCostError(`its process was killed, as one is that takes ${this.#limits.cpuSeconds * 2} s of CPU`);
    throw new Error(`the compiler of deployments ended with ${how}: ${stderr}`);
  }
}

function createCostError(why: string): AppError {
  return new AppError(
    'usage',
    'deploy/too-costly',
    `the spec cannot be compiled: ${why}`,
    'Make the spec smaller, or split it. The parameters of a delivery count too.',
  );
}
