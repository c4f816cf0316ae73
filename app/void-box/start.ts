/**
 * Starts runs for Void-Box's API. The answer comes before the spec is read, as its clients expect. A spec that cannot
 * run leaves a run that has failed.
 */
import { dirname } from 'node:path';
import { createRunId } from '../../client/runs/new-id.ts';
import { type AnyErrorCode, toErrorCode } from '../../domain/errors/error-code.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { RunOutcome } from '../../domain/run/event.ts';
import { cutText } from '../../domain/units/cut-text.ts';
import { collectResult } from '../../domain/void-box/collect-result.ts';
import { applyPolicy, type RunPolicy } from '../../domain/void-box/policy.ts';
import { type Caller, requireRun } from '../access/authenticate.ts';
import { AppError } from '../app-error.ts';
import { describeError } from '../describe-error.ts';
import type { Machine } from '../machine.ts';
import { findTakenId } from '../start/start-run.ts';
import { refuseRunId, SpecRefusal, startSpec } from '../start/start-spec.ts';
import { type FoundRun, findRun, readServerState } from './find-run.ts';
import { readStartRecord, START_RECORD, type StartRecord } from './records.ts';
import { readSpecFile, refuseSpecFile } from './spec-file.ts';

/** The most generated ids that are tried. */
const MOST_IDS = 5;
/** Mistakes of a spec in the error of its run. */
const SHOWN_MISTAKES = 20;

export interface VoidBoxStart {
  readonly file: string;
  readonly input: string | null;
  /** Null: a generated id. */
  readonly runId: string | null;
  readonly policy: Partial<RunPolicy> | null;
  /** The only variables that the run may read. */
  readonly variables: Readonly<Record<string, string>>;
  readonly caller: Caller;
}

export interface VoidBoxStarts {
  /**
   * Starts a run, or returns the active run with its id.
   * @returns null: the run was started; else the run that exists
   * @throws AppError `api/run-exists` for a run that has ended, `api/not-allowed`, `api/invalid-request`
   */
  start(request: VoidBoxStart): Promise<{ readonly runId: string; readonly existing: FoundRun | null }>;
  /** The runs that this process starts at the moment. */
  listUnderWay(): Promise<readonly FoundRun[]>;
  /** Whether this process starts the run at the moment. */
  isUnderWay(runId: string): boolean;
  /** Settles when the start of the run is no longer under way. */
  waitUntilStarted(runId: string): Promise<void>;
}

export interface StartsOptions {
  readonly machine: Machine;
  /** The folder whose specs a token may start; null: no folder. */
  readonly readSpecRoot: () => string | null;
  readonly log: (line: string) => void;
}

export function createStarts({ machine, readSpecRoot, log }: StartsOptions): VoidBoxStarts {
  const underWay = new Map<string, Promise<void>>();
  const isUnderWay = (runId: string): boolean => underWay.has(runId);
  let last: Promise<unknown> = Promise.resolve();
  const claim = async (request: VoidBoxStart): Promise<{ runId: string; existing: FoundRun | null }> => {
    const { file, policy, runId: wanted } = request;
    const { records, index } = await machine.stores();
    const record: StartRecord = { file, atMs: machine.now().getTime(), policy };
    for (let tries = 1; ; tries += 1) {
      const runId = wanted ?? createRunId('run', machine.now());
      requireRun(request.caller, runId);
      if (!(await index.has(runId)) && !isUnderWay(runId) && (await records.create(runId, START_RECORD, record)))
        return { runId, existing: null };
      if (wanted === null && tries < MOST_IDS) continue;
      const existing = await findRun(runId, isUnderWay, machine);
      if (existing.place.kind !== 'lost') return { runId, existing };
      await records.put(runId, START_RECORD, record);
      return { runId, existing: null };
    }
  };
  return {
    isUnderWay,
    listUnderWay: async () =>
      await Promise.all(
        [...underWay.keys()].map(async (runId) => ({
          runId,
          started: await readStartRecord(runId, machine),
          place: { kind: 'pending' as const },
        })),
      ),
    waitUntilStarted: async (runId) => await underWay.get(runId),
    async start(request) {
      const specRoot = readSpecRoot();
      refuseSpecFile(request.file, request.caller, specRoot);
      refuseRunId(request.runId);
      // One claim after the other: a second request finds the first one on its way.
      const answer = last.then(async () => {
        const { runId, existing } = await claim(request);
        if (existing !== null) {
          refuseEnded(existing);
          return { runId, existing };
        }
        const started = startInBackground({ ...request, runId }, { machine, specRoot, log });
        underWay.set(
          runId,
          started.finally(() => underWay.delete(runId)),
        );
        return { runId, existing: null };
      });
      last = answer.catch(() => undefined);
      return await answer;
    },
  };
}

function refuseEnded({ runId, place }: FoundRun): void {
  if (place.kind !== 'stored' || place.view.state === 'running') return;
  const message = `run '${runId}' is already in terminal state '${place.view.state}'`;
  throw new AppError('usage', 'api/run-exists', message);
}

interface Background {
  readonly machine: Machine;
  readonly specRoot: string | null;
  readonly log: (line: string) => void;
}

/** Never rejects. */
async function startInBackground(
  request: VoidBoxStart & { readonly runId: string },
  { machine, specRoot, log }: Background,
): Promise<void> {
  const { runId } = request;
  let mayExist = false;
  const context: Machine = {
    ...machine,
    // Before the server is asked, no workflow of the run exists.
    stackLink: async () => {
      const link = (await machine.stackLink?.()) ?? null;
      if (link !== null) mayExist = true;
      return link;
    },
  };
  try {
    await startFile(request, { machine: context, specRoot, log });
  } catch (error) {
    try {
      await keepFailure(runId, error, { mayExist, machine, log });
    } catch (cause) {
      log(`run ${runId}: its failed start was not recorded: ${(cause as Error).message}`);
    }
  }
}

async function startFile(
  { file, input, runId, policy, variables, caller }: VoidBoxStart,
  { machine, specRoot, log }: Background,
): Promise<void> {
  const { text, path } = readSpecFile(file, caller, specRoot);
  const request = {
    spec: text,
    baseDir: dirname(path),
    params: {},
    input,
    runId,
    mock: null,
    mockAgents: false,
    variables,
    allowMounts: [],
    allowGit: [],
  };
  const adapt = (plan: Plan): Plan => applyPolicy(collectResult(plan), policy ?? {});
  const { baseDir: folder } = request;
  const starter =
    caller.kind === 'owner' ? {} : { starter: { name: caller.token.name, allowGit: caller.token.allowGit, folder } };
  await startSpec({ ...request, ...starter, adapt }, log, machine);
}

async function keepFailure(
  runId: string,
  error: unknown,
  { mayExist, machine, log }: { readonly mayExist: boolean } & Pick<Background, 'machine' | 'log'>,
): Promise<void> {
  const { events, records } = await machine.stores();
  // The events of a run that another client started are not touched.
  if (findTakenId(error) === runId) return await records.drop(runId, START_RECORD);
  const facts = await describeError(error);
  if (facts === null) log(`run ${runId}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  const message = facts === null ? 'this is a bug in voidbox' : describeFailure(error, facts);
  if (mayExist && (await readServerState(runId, machine)) !== 'missing') {
    log(`run ${runId}: its start failed, and the server may have it: ${message}`);
    return;
  }
  const outcome = createFailedOutcome(toRunCode(facts?.code ?? null), message);
  await events.append(runId, [
    { id: EVENT_ID.runFinished, atMs: machine.now().getTime(), body: { type: 'run-finished', outcome } },
  ]);
}

/** Lists the mistakes of a spec, because the error of a run is one text. */
function describeFailure(
  error: unknown,
  { message, remedy }: { readonly message: string; readonly remedy: string | null },
): string {
  if (!(error instanceof SpecRefusal)) return remedy === null ? message : `${message}. ${remedy}`;
  const mistakes = error.diagnostics.filter(({ severity }) => severity === 'error');
  const lines = mistakes
    .slice(0, SHOWN_MISTAKES)
    .map(({ line, column, message: text }) => `${line}:${column}: ${text}`);
  return [message, ...lines].join('\n');
}

/** No run ends with a code of the API. */
function toRunCode(code: AnyErrorCode | null): AnyErrorCode {
  if (code === null) return toErrorCode(null);
  if (code === 'api/skill-not-loaded') return 'skill/unknown';
  return code.startsWith('api/') ? 'admit/invalid' : code;
}

function createFailedOutcome(code: AnyErrorCode, message: string): RunOutcome {
  return {
    state: 'failed',
    failedStage: null,
    failure: { code, message: cutText(message), stderrTail: '' },
    output: null,
  };
}
