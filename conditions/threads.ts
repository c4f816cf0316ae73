/**
 * Evaluates conditions and validates outputs in a thread, with limits of time and memory. A thread handles one
 * evaluation at a time. It is reused after an evaluation that ended well, and is ended after it was idle for a while.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { CheckOutput } from '../activities/ports/output-check.ts';
import type { EvaluateCondition, EvaluateTexts } from '../activities/ports/conditions.ts';
import type { ConditionAnswer, TextsAnswer } from '../domain/language/expression/evaluate.ts';
import type { TriggerAnswer, TriggerQuestion } from '../domain/language/expression/evaluate-trigger.ts';
import { EXPRESSION_LIMITS } from '../domain/language/expression/limits.ts';
import { OUTPUT_SCHEMA_LIMITS, type OutputAnswer } from '../domain/language/schema/output-schema.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import type { Question } from './thread.ts';

export interface ConditionThreads {
  readonly evaluate: EvaluateCondition;
  readonly evaluateTexts: EvaluateTexts;
  readonly checkOutput: CheckOutput;
  /** Evaluates the expressions of a trigger; a limit that they exceed is a problem of `when`. */
  readonly evaluateTrigger: (question: TriggerQuestion) => Promise<TriggerAnswer>;
  close(): Promise<void>;
}

const START_LIMIT_MS = 20_000;
/** On a host that is so busy that a thread gets no time, Temporal tries again. */
const STARVED_AFTER_MS = 20_000;
const IDLE_MS = 10_000;
const PROBLEM_CHARACTERS = 1_024;

type Answer = ConditionAnswer | TextsAnswer | OutputAnswer | TriggerAnswer;

/** A thread for conditions and one for outputs: what an output costs delays no condition. */
export function createConditionThreads({ idleMs = IDLE_MS }: { readonly idleMs?: number } = {}): ConditionThreads {
  const conditions = createQueue(idleMs, EXPRESSION_LIMITS.evaluationMs);
  const outputs = createQueue(idleMs, OUTPUT_SCHEMA_LIMITS.evaluationMs);
  return {
    evaluate: (source, values) => conditions.ask({ source, values }) as Promise<ConditionAnswer>,
    evaluateTexts: async (sources, values) => {
      const answer = (await conditions.ask({ sources, values })) as TextsAnswer;
      // A limit applies to all sources together, so report it for the first one.
      return 'problem' in answer ? { ...answer, source: answer.source ?? 0 } : answer;
    },
    async evaluateTrigger(question) {
      const answer = (await conditions.ask(question)) as TriggerAnswer;
      // A limit applies to all expressions together.
      return 'problem' in answer ? { ...LIMIT_OF_ALL, ...answer } : answer;
    },
    checkOutput: (schema, text) => outputs.ask({ schema, text }) as Promise<OutputAnswer>,
    async close() {
      await Promise.all([conditions.close(), outputs.close()]);
    },
  };
}

const LIMIT_OF_ALL = { where: 'when', isPayload: false } as const;

interface Queue {
  ask(question: Question): Promise<Answer>;
  close(): Promise<void>;
}

function createQueue(idleMs: number, limitMs: number): Queue {
  let last: Promise<unknown> = Promise.resolve();
  let kept: Thread | null = null;
  let idle: NodeJS.Timeout | undefined;
  const end = async (): Promise<void> => {
    const thread = kept;
    kept = null;
    await thread?.end();
  };
  const answerTo = async (question: Question): Promise<Answer> => {
    clearTimeout(idle);
    // The thread may have ended while it was idle.
    if (kept?.hasEnded === true) kept = null;
    kept ??= await Thread.start();
    const answer = await kept.answer(question, limitMs);
    if (kept.hasEnded) kept = null;
    else idle = setTimeout(() => void end(), idleMs).unref();
    return 'problem' in answer ? { ...answer, problem: answer.problem.slice(0, PROBLEM_CHARACTERS) } : answer;
  };
  return {
    ask: (question) => {
      const mine = last.then(() => answerTo(question));
      last = mine.catch(() => undefined);
      return mine;
    },
    async close() {
      await last;
      clearTimeout(idle);
      await end();
    },
  };
}

type ThreadMessage = { readonly message: unknown } | { readonly error: Error } | null;

class Thread {
  readonly #worker: Worker;
  readonly #name: string;
  #hasEnded = false;
  #hear: (heard: ThreadMessage) => void = () => undefined;

  private constructor(worker: Worker, name: string) {
    this.#worker = worker;
    this.#name = name;
    worker.on('message', (message: unknown) => this.#hear({ message }));
    worker.on('error', (error: Error) => this.#hear({ error }));
    worker.on('exit', () => {
      this.#hasEnded = true;
      this.#hear(null);
    });
  }

  static async start(): Promise<Thread> {
    // Also in tests, which run from sources: the thread is started by Node alone.
    const worker = new Worker(join(findPackageRoot(), 'dist/conditions/thread.js'), {
      resourceLimits: { maxOldGenerationSizeMb: EXPRESSION_LIMITS.memoryMib, maxYoungGenerationSizeMb: 16 },
      // The thread gets the texts that it needs, but no variables of this process.
      env: {},
      argv: [],
      execArgv: [],
    });
    worker.unref();
    const limit = new AbortController();
    try {
      const name = await Promise.race([
        new Promise<string>((resolve, reject) => {
          worker.once('message', ({ thread }: { readonly thread: string }) => resolve(thread));
          worker.once('error', reject);
        }),
        sleep(START_LIMIT_MS, null, { signal: limit.signal }),
      ]);
      if (name === null) throw new Error(`a thread for conditions did not start within ${START_LIMIT_MS} ms`);
      return new Thread(worker, name);
    } catch (error) {
      await worker.terminate();
      throw error;
    } finally {
      limit.abort();
    }
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  async answer(question: Question, limitMs: number): Promise<Answer> {
    const before = this.#cpuMs();
    const asked = performance.now();
    const heard = new Promise<ThreadMessage>((resolve) => (this.#hear = resolve));
    this.#worker.postMessage(question);
    for (let waitMs: number = limitMs; ; waitMs = 20) {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<'late'>((resolve) => (timer = setTimeout(resolve, waitMs, 'late')));
      const now = await Promise.race([heard, late]);
      clearTimeout(timer);
      if (now !== 'late') return await this.#answerOf(now);
      // Use the thread's own clock: on a busy host even a cheap condition takes long.
      if (this.#cpuMs() - before >= limitMs) {
        await this.end();
        return { problem: `it takes more than ${limitMs} ms` };
      }
      if (performance.now() - asked < STARVED_AFTER_MS) continue;
      await this.end();
      throw new Error(`a condition got too little time on this host within ${STARVED_AFTER_MS} ms`);
    }
  }

  async #answerOf(heard: ThreadMessage): Promise<Answer> {
    if (heard !== null && 'message' in heard) return heard.message as Answer;
    await this.end();
    if (heard !== null && (heard.error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY')
      return { problem: `it takes more than ${EXPRESSION_LIMITS.memoryMib} MiB of memory` };
    throw heard?.error ?? new Error('the thread of a condition ended without an answer');
  }

  async end(): Promise<void> {
    this.#hasEnded = true;
    await this.#worker.terminate();
  }

  /** The CPU time that the thread has used, in steps of 10 ms. */
  #cpuMs(): number {
    const [, task, thread] = this.#name.split('/');
    try {
      const stat = readFileSync(`/proc/self/${task}/${thread}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return (Number(fields[11]) + Number(fields[12])) * 10;
    } catch {
      // The thread has just ended; its `exit` event follows.
      return 0;
    }
  }
}
