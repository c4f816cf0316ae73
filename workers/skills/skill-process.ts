/** A child process that runs one skill's code, as the worker sees it: one request at a time, a limit for each. */
import { spawn, type ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { createInterface } from 'node:readline';
import { isBaseVariable } from '../../domain/step-machine/skill-variables.ts';
import { type Redaction, redactionOf } from '../../skill-kit/drive/skill-environment.ts';
import { ANSWER_FD, type ChildAnswer, type ChildHello, type ChildRequest, type FailedCode } from './protocol.ts';
import { createMapping } from '../../domain/units/mapping.ts';

/** Import of a bundle, on a loaded machine. */
const LOAD_LIMIT_MS = 60_000;
/** An aborted action has this long to end before its process is ended. */
const ABORT_GRACE_MS = 2_000;
/** Longer lines are no answers. */
const MOST_LINE_BYTES = 8 * 1024 * 1024;
const MOST_HEAP_MIB = 512;
const LAST_WORDS_CHARACTERS = 2_000;
/** The most values of variables that are redacted in output. */
const MOST_VALUES = 256;

/** The process has ended, so none of its open requests will get an answer. */
export class SkillProcessGone extends Error {
  /** Whether the process exceeded its time limit. */
  readonly isLate: boolean;
  constructor(message: string, isLate: boolean) {
    super(message);
    this.name = 'SkillProcessGone';
    this.isLate = isLate;
  }
}

/** The child answered that it could not do it. */
export class SkillRequestFailed extends Error {
  readonly code: FailedCode | null;
  constructor(message: string, code: SkillRequestFailed['code']) {
    super(message);
    this.name = 'SkillRequestFailed';
    this.code = code;
  }
}

export interface SkillProcessOptions {
  /** Entry of the child. */
  readonly script: string;
  readonly bundle: string;
  readonly codeHash: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Each line that the author's code writes. */
  readonly onLine: (line: string) => void;
}

interface Waiter {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

export class SkillProcess {
  readonly hello: Promise<ChildHello>;
  readonly #child: ChildProcess;
  #waiting: Waiter | null = null;
  #words = '';
  /** Values of variables that the process has received so far, because its output may arrive late. */
  #values: Readonly<Record<string, string>> = createMapping();
  #redaction: Redaction = redactionOf({});
  #gone: SkillProcessGone | null = null;
  #endedFor: { readonly why: string; readonly isLate: boolean } | null = null;

  constructor({ script, bundle, codeHash, env, onLine }: SkillProcessOptions) {
    this.#child = spawn(
      process.execPath,
      [`--max-old-space-size=${MOST_HEAP_MIB}`, '--enable-source-maps', script, bundle, codeHash, String(process.pid)],
      {
        stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
        env,
      },
    );
    const { stdin, stdout, stderr } = this.#child;
    // A child that has just ended accepts no more input; the handler below notices its end.
    stdin!.on('error', () => undefined);
    for (const stream of [stdout!, stderr!]) {
      createInterface({ input: stream, crlfDelay: Infinity }).on('line', (written) => {
        const line = this.#redaction.text(written);
        this.#words = `${this.#words}${line}\n`.slice(-LAST_WORDS_CHARACTERS);
        onLine(line);
      });
    }
    this.#readAnswers(this.#child.stdio[ANSWER_FD] as Readable);
    this.#child.once('error', (error) => this.#ended(error.message));
    // `close` is emitted after the last output has been read.
    this.#child.once('close', (code, signal) =>
      this.#ended(signal === null ? `exit code ${code}` : `signal ${signal}`),
    );
    this.hello = this.#limited(LOAD_LIMIT_MS, 'its code was not loaded within') as Promise<ChildHello>;
    this.hello.catch(() => this.end('its code cannot be loaded', false));
  }

  get isGone(): boolean {
    return this.#gone !== null || this.#endedFor !== null;
  }

  /**
   * @param limitMs  null: as long as it takes
   * @throws SkillProcessGone when it does not live to answer, SkillRequestFailed when it answers that it can't
   */
  async request(request: ChildRequest, limitMs: number | null, signal?: AbortSignal): Promise<unknown> {
    await this.hello;
    if (this.#gone !== null) throw this.#gone;
    signal?.throwIfAborted();
    if ('variables' in request) this.#keepToItself(request.variables);
    let grace: NodeJS.Timeout | undefined;
    const abort = (): void => {
      this.#write({ op: 'abort' });
      grace = setTimeout(() => this.end('it did not end when it was told to', false), ABORT_GRACE_MS);
    };
    signal?.addEventListener('abort', abort, { once: true });
    try {
      const answer = this.#limited(limitMs, 'it did not return within');
      this.#write(request);
      return await answer;
    } finally {
      clearTimeout(grace);
      signal?.removeEventListener('abort', abort);
    }
  }

  #keepToItself(variables: Readonly<Record<string, string>>): void {
    // Keyed by name and value, because sessions may have different values. Variables that every program sees are not
    // secret, declared or not.
    const secrets = Object.entries(variables).filter(([name]) => !isBaseVariable(name));
    const named = Object.fromEntries(secrets.map(([name, value]) => [`${name}=${value}`, value]));
    if (Object.keys(named).every((key) => Object.hasOwn(this.#values, key))) return;
    this.#values = Object.fromEntries(Object.entries({ ...this.#values, ...named }).slice(-MOST_VALUES));
    this.#redaction = redactionOf(this.#values);
  }

  end(why: string, isLate: boolean): void {
    this.#endedFor ??= { why, isLate };
    this.#child.kill('SIGKILL');
  }

  #write(value: object): void {
    this.#child.stdin!.write(`${JSON.stringify(value)}\n`);
  }

  #limited(limitMs: number | null, late: string): Promise<unknown> {
    let timer: NodeJS.Timeout | undefined;
    const answer = new Promise<unknown>((resolve, reject) => (this.#waiting = { resolve, reject }));
    if (limitMs !== null) timer = setTimeout(() => this.end(`${late} ${limitMs} ms`, true), limitMs);
    return answer.finally(() => clearTimeout(timer));
  }

  #readAnswers(stream: Readable): void {
    let text = '';
    stream.setEncoding('utf8');
    stream.on('data', (chunk: string) => {
      text += chunk;
      for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
        this.#receive(text.slice(0, end));
        text = text.slice(end + 1);
      }
      if (text.length > MOST_LINE_BYTES) this.end(`it answered with more than ${MOST_LINE_BYTES} bytes`, false);
    });
  }

  #receive(line: string): void {
    let answer: ChildAnswer;
    try {
      answer = JSON.parse(line) as ChildAnswer;
    } catch {
      return this.end(`it wrote to descriptor ${ANSWER_FD}, which is not its author's`, false);
    }
    const waiting = this.#waiting;
    this.#waiting = null;
    if ('hello' in answer) waiting?.resolve(answer.hello);
    else if ('ok' in answer) waiting?.resolve(answer.ok);
    else waiting?.reject(new SkillRequestFailed(answer.failed, answer.code ?? null));
  }

  #ended(how: string): void {
    if (this.#gone !== null) return;
    const words = this.#words.trim();
    const { why, isLate } = this.#endedFor ?? { why: `it ended (${how})`, isLate: false };
    this.#gone = new SkillProcessGone(
      `${why}; its process is gone${words === '' ? '' : `. Its last words:\n${words}`}`,
      isLate,
    );
    this.#waiting?.reject(this.#gone);
    this.#waiting = null;
  }
}
