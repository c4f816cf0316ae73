/**
 * Runs a definition from a program: the command line is its client, as for people. So a run finds the same server, gets
 * the same variables and may use the same mounts, and continues when the program ends.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { Diagnostic } from '../domain/errors/diagnostic.ts';
import { type AnyErrorCode, toErrorCode } from '../domain/errors/error-code.ts';
import type { DataRef, Plan } from '../domain/plan/plan.ts';
import { isEndOfServices } from '../domain/pipeline/service-end.ts';
import type { RunEvent } from '../domain/run/event.ts';
import { separateId } from '../domain/run/run-id.ts';
import { findLostNumber } from '../domain/units/lost-number.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { keepExact } from './options.ts';
import { isBeingLoaded } from './places.ts';

/** Limit of one argument of a program: Linux accepts 128 KiB. */
const PARAM_BYTES = 100_000;
/** The limits of `--timeout` and `--deadline`. */
const RUN_TIME = { minMs: 1_000, maxMs: 400 * 24 * 60 * 60_000 };
/** Limit of the messages of the command line that the error of a run that did not start contains. */
const TOLD_LINES = 200;
/** The line after which an interrupt cancels the run. */
const FOLLOWED = 'follow it elsewhere: ';

export interface RunOptions {
  /**
   * The folder from which relative host paths of mounts start, and which the run may mount. Default: the working
   * directory.
   */
  readonly baseDir?: string;
  /** JSON that the first stages find in `/workspace/input.json`. */
  readonly input?: unknown;
  /** Id of the run. An id that was used before is refused. Default: made from the name and the time. */
  readonly runId?: string;
  /** Stages that return their `mock` instead of running: `all` stages with a `mock`, or these. */
  readonly mock?: 'all' | readonly string[];
  /** Host folders that the run may mount and work in, in addition to `baseDir`. */
  readonly allowMounts?: readonly string[];
  /** Repositories of the network that the run may fetch with your git login, as HOST/PATH. */
  readonly allowGit?: readonly string[];
  /** The mock agent plays every agent, without a model; without an agent it has no effect. */
  readonly mockAgents?: boolean;
  /**
   * Time limit of the run; overrides that of the definition. Time in which the run only waits does not count. From one
   * second to 400 days.
   */
  readonly timeoutMs?: number;
  /** Like `timeoutMs`, but all time counts. */
  readonly deadlineMs?: number;
  /** Cancels the run. */
  readonly signal?: AbortSignal;
  /** Called with each line that `voidbox run` prints while the run continues. */
  readonly onProgress?: (line: string) => void;
  /**
   * Called with each event of the run, in order; `event.body.type` is its kind. A run on another host has no events
   * here.
   */
  readonly onEvent?: (event: RunEvent) => void;
}

/** A run that succeeded. */
export interface RunResult<R = unknown> {
  readonly runId: string;
  /**
   * Parsed JSON if the stage that returns it has `outputSchema` or `forEach`, is an approval or a fan-out; else its
   * text. Null if the stage was passed, or if its output has more than 1 MiB, is not UTF-8 or is on another host:
   * `voidbox result RUN` prints it there.
   */
  readonly output: R | null;
  /** The output in the store of the host that ran it. */
  readonly ref: DataRef | null;
  /** Stages that failed with `continueOnError`. */
  readonly tolerated: readonly string[];
}

/** The reason why a run has no result. */
export class RunError extends Error {
  override readonly name = 'RunError';
  /** An error code from docs/reference/errors.md. */
  readonly code: AnyErrorCode;
  /** Null: the run did not start. */
  readonly runId: string | null;
  /** `succeeded`: the output contains a number that JavaScript cannot represent. */
  readonly state: 'failed' | 'cancelled' | 'succeeded' | null;
  /** The first stage that failed, if a stage is the reason. */
  readonly stage: string | null;
  /** Last lines of that stage's standard error, as the guest wrote them. */
  readonly stderrTail: string;
  /** The remedy, if it is known. */
  readonly remedy: string | null;
  /** Diagnostics of a definition with mistakes. */
  readonly diagnostics: readonly Diagnostic[];

  constructor(code: AnyErrorCode, message: string, about: Partial<Omit<RunError, 'code' | 'name' | 'message'>> = {}) {
    super(message);
    this.code = code;
    this.runId = about.runId ?? null;
    this.state = about.state ?? null;
    this.stage = about.stage ?? null;
    this.stderrTail = about.stderrTail ?? '';
    this.remedy = about.remedy ?? null;
    this.diagnostics = about.diagnostics ?? [];
  }
}

export interface Runnable {
  readonly name: string;
  readonly source: string;
  compile(options: { readonly baseDir: string; readonly params: Readonly<Record<string, string>> }): {
    readonly plan: Plan | null;
    readonly diagnostics: readonly Diagnostic[];
  };
}

/** @param params  in the form of `--param` */
export async function runDefinition(
  definition: Runnable,
  params: Readonly<Record<string, string>>,
  options: RunOptions,
): Promise<RunResult> {
  if (isBeingLoaded())
    throw new Error(
      'a definition that `voidbox run` or `validate` loads must not start a run: export it, and call `run` in a separate program',
    );
  options.signal?.throwIfAborted();
  const baseDir = resolve(options.baseDir ?? '.');
  const { plan, diagnostics } = definition.compile({ baseDir, params });
  if (plan === null) {
    const mistakes = diagnostics.filter(({ severity }) => severity === 'error');
    const more = mistakes.length > 1 ? `, and ${mistakes.length - 1} more in \`diagnostics\`` : '';
    const message = `the definition "${definition.name}" has mistakes: ${mistakes[0]?.message ?? 'it makes no plan'}${more}`;
    throw new RunError('spec/invalid', message, { diagnostics, remedy: mistakes[0]?.remedy ?? null });
  }
  const folder = await mkdtemp(join(tmpdir(), 'voidbox-run-'));
  try {
    return await follow(definition, plan, { params, baseDir, folder, options });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

interface Call {
  readonly params: Readonly<Record<string, string>>;
  readonly baseDir: string;
  /** Folder for values that are passed as files. */
  readonly folder: string;
  readonly options: RunOptions;
}

async function follow(definition: Runnable, plan: Plan, call: Call): Promise<RunResult> {
  const { signal, onProgress } = call.options;
  const child = spawn(process.execPath, [join(findPackageRoot(), 'bin/voidbox.js'), ...(await argumentsOf(call))], {
    cwd: call.baseDir,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const told: string[] = [];
  let isFollowed = false;
  const cancel = (): void => {
    if (isFollowed) child.kill('SIGINT');
  };
  createInterface({ input: child.stderr }).on('line', (line) => {
    told.push(line);
    if (told.length > TOLD_LINES) told.shift();
    if (line.includes(FOLLOWED)) {
      isFollowed = true;
      // The signal was aborted before the run could be cancelled.
      if (signal?.aborted === true) cancel();
    }
    onProgress?.(line);
  });
  signal?.addEventListener('abort', cancel);
  // A command that ended early reads no more of it, and its own error names the reason.
  child.stdin.on('error', () => undefined).end(definition.source);
  try {
    const [stdout, status] = await Promise.all([resultLine(child.stdout, call.options.onEvent), waitForExit(child)]);
    return stdout.trim() === '' ? throwStartError(told, status) : resultOf(JSON.parse(stdout) as RunReply, plan);
  } finally {
    signal?.removeEventListener('abort', cancel);
  }
}

async function argumentsOf({ params, folder, options }: Call): Promise<readonly string[]> {
  const { runId, mock, mockAgents, timeoutMs, deadlineMs, onEvent, allowMounts = [], allowGit = [], input } = options;
  const inputFile = join(folder, 'input.json');
  if (input !== undefined)
    await writeFile(
      inputFile,
      JSON.stringify(input, (key, value: unknown) => keepExact(key, value)),
      { mode: 0o600 },
    );
  return [
    'run',
    '-',
    '--json',
    ...Object.entries(params).flatMap(([name, value]) => {
      const bytes = Buffer.byteLength(value);
      if (bytes > PARAM_BYTES)
        throw new RangeError(
          `the parameter \`${name}\` has ${bytes} bytes; a run takes ${PARAM_BYTES}: hand it over as \`input\`, or in a mounted file`,
        );
      return ['--param', `${name}=${value}`];
    }),
    ...(runId === undefined ? [] : ['--run-id', runId]),
    ...(mock === undefined ? [] : [mock === 'all' ? '--mock' : `--mock=${mock.join(',')}`]),
    ...(mockAgents === true ? ['--mock-agents'] : []),
    ...(timeoutMs === undefined ? [] : ['--timeout', timeFor('timeoutMs', timeoutMs)]),
    ...(deadlineMs === undefined ? [] : ['--deadline', timeFor('deadlineMs', deadlineMs)]),
    ...(onEvent === undefined ? [] : ['--events']),
    ...allowMounts.flatMap((path) => ['--allow-mounts', resolve(path)]),
    ...allowGit.flatMap((place) => ['--allow-git', place]),
    ...(input === undefined ? [] : ['--input', `@${inputFile}`]),
  ];
}

/** @throws RangeError that names the option, which the command line does not know */
function timeFor(option: 'timeoutMs' | 'deadlineMs', ms: number): string {
  if (Number.isInteger(ms) && ms >= RUN_TIME.minMs && ms <= RUN_TIME.maxMs) return `${ms}ms`;
  throw new RangeError(
    `\`${option}\` is ${ms}: it must be a whole number of milliseconds from ${RUN_TIME.minMs} to ${RUN_TIME.maxMs}`,
  );
}

/** The fields of `--json` that are read here. */
interface RunReply {
  readonly runId: string;
  readonly state: string;
  readonly stages: readonly { readonly id: string; readonly state: string; readonly attempt: number }[];
  readonly failedStage: string | null;
  readonly failure: { readonly code: string; readonly message: string; readonly stderrTail?: string } | null;
  readonly tolerated: readonly string[];
  readonly output: DataRef | null;
  readonly outputText: string | null;
}

function resultOf(reply: RunReply, plan: Plan): RunResult {
  const { runId, state, stages, failedStage, failure, tolerated, output: ref, outputText } = reply;
  if (state === 'succeeded' || isEndOfServices(plan, { state, hasFailure: failure !== null, stages }))
    return { runId, output: outputText === null ? null : outputOf(outputText, reply, plan), ref, tolerated };
  const isCancelled = state === 'cancelled';
  throw new RunError(
    toErrorCode(failure?.code ?? (isCancelled ? 'stage/cancelled' : undefined)),
    isCancelled ? `the run ${runId} was cancelled` : `the run ${runId} failed: ${failure?.message ?? state}`,
    {
      runId,
      state: isCancelled ? 'cancelled' : 'failed',
      stage: failedStage,
      stderrTail: failure?.stderrTail ?? '',
      remedy: `see what it did: voidbox status ${separateId(runId)}`,
    },
  );
}

function outputOf(text: string, { runId, stages }: RunReply, { output, stages: planned }: Plan): unknown {
  if (output.kind === 'merge') return exactJson(text, runId, null);
  const stage = planned.find(({ id }) => id === output.stage);
  const isJson =
    stage !== undefined &&
    (stage.outputSchema !== undefined || stage.each !== undefined || stage.work.kind === 'approval');
  if (!isJson) return text;
  // If the stage was passed, or its failure is tolerated, the output may not have the type of the stage.
  return stages.some(({ id, state }) => id === output.stage && state === 'succeeded')
    ? exactJson(text, runId, output.stage)
    : null;
}

/** @throws RunError for a number that would become another number */
function exactJson(text: string, runId: string, stage: string | null): unknown {
  const number = findLostNumber(text);
  if (number === null) return JSON.parse(text) as unknown;
  throw new RunError(
    'cli/inexact-number',
    `the output of the run ${runId} has the number ${number.slice(0, 80)}, which has no exact value in JavaScript`,
    {
      runId,
      state: 'succeeded',
      stage,
      remedy: `print it as a string, or read the text: voidbox result ${separateId(runId)}`,
    },
  );
}

/** Reads the reason, which is the last line of JSON that the command line prints. */
function throwStartError(told: readonly string[], status: string): never {
  const last = told.findLast((line) => line.startsWith('{"error":'));
  if (last === undefined)
    throw new RunError('cli/bug', `\`voidbox run\` ended with ${status} and no result: ${told.slice(-5).join('\n')}`);
  const { error } = JSON.parse(last) as {
    readonly error: { readonly code: string; readonly message: string; readonly remedy: string | null };
  };
  throw new RunError(toErrorCode(error.code), error.message, { remedy: error.remedy });
}

/** Returns the output of the command line without its events. Each event is a line of its own. */
async function resultLine(stream: Readable, onEvent: RunOptions['onEvent']): Promise<string> {
  if (onEvent === undefined) return await textOf(stream);
  let result = '';
  for await (const line of createInterface({ input: stream })) {
    const value = JSON.parse(line) as RunEvent | RunReply;
    if ('body' in value) onEvent(value);
    else result = line;
  }
  return result;
}

async function textOf(stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

function waitForExit(child: ChildProcess): Promise<string> {
  return new Promise((settle, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => settle(signal ?? `exit code ${code}`));
  });
}
