/** Retries and forks: runs that use the results of an earlier run. */
import { NO_NOTIFY } from '../../domain/notification/notify.ts';
import type { AdmissionRecord } from '../../activities/admission/admission-record.ts';
import type { SourceRecord } from '../../client/runs/client-record.ts';
import {
  findDifferingBefore,
  type EarlierRun,
  type PlannedRun,
  type Reuse,
  reuseOf,
  type SavedVm,
} from '../../domain/pipeline/reuse.ts';
import { findMocksToRepeat } from '../../domain/plan-rules/mocks.ts';
import { listMockAgentStages } from '../../domain/plan-rules/mock-agents.ts';
import { withLimits } from '../../domain/plan-rules/agent-limits.ts';
import { ownStageOf, ownStages } from '../../domain/plan/item-parts.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { isSavedEachStep } from '../../domain/plan/scope.ts';
import type { ContinueRequest, RunOrigin } from '../../domain/run/origin.ts';
import { findNearest } from '../../domain/language/text/suggest.ts';
import { AppError, createUsageError } from '../app-error.ts';
import { refuseCommandRun } from '../runs/command-run.ts';
import { compileAgain, type CompiledRun, type CompileNotice, compileRun, type RepeatedOptions } from './compile-run.ts';
import { planContinuation, type ContinuedPlan } from './continue-run.ts';
import type { Machine } from '../machine.ts';
import { readSettings } from './host-settings.ts';
import { readRecordedRun, type RecordedRun } from '../runs/recorded-run.ts';
import { findRunHere } from '../runs/run-elsewhere.ts';
import { quoteRunId } from '../../domain/run/run-id.ts';
import { formatRunId, renderCommand } from '../runs/run-id.ts';
import { type LimitOptions, limitPlan } from './run-limits.ts';
import type { ImagePlaces } from './plan-images.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';
import { readStepCheckpoints } from '../../store/step-checkpoints.ts';

export interface RerunRequest {
  /** The earlier run, as a person names it: an id, the beginning of an id, or `latest`. */
  readonly earlier: string;
  /** The spec of a fork; null: the spec of the earlier run. */
  readonly file: string | null;
  /** The stage from which everything runs again; null: the first stage that has no result to use. */
  readonly from: string | null;
  /** Values of parameters; null: the values of the earlier run. */
  readonly params: Readonly<Record<string, string>> | null;
  readonly limits: LimitOptions;
  /** Agents that continue their saved sessions; null: none does. */
  readonly continue: ContinueRequest | null;
  /** The run gets an input of its own. */
  readonly hasInput: boolean;
  readonly images: Pick<ImagePlaces, 'given' | 'allow'>;
  readonly onNotice: (notice: CompileNotice) => Promise<void>;
}

/** A retry or a fork that can start. */
export interface PreparedRerun {
  readonly compiled: Compiled;
  /** The plan that runs: the compiled plan, with the limits of agents that continue. */
  readonly plan: Plan;
  readonly origin: RunOrigin;
  /** Which results the run uses. Admission decides it again. */
  readonly reuse: Reuse;
  readonly continued: ContinuedPlan | null;
  /** The plan equals the plan of the earlier run, so a request need not contain it. */
  readonly isSamePlan: boolean;
  /** The limit of a retry of a token's run, as in `Machine`: the spec is not the owner's. */
  readonly confinedTo: string | undefined;
}

/**
 * Compiles a retry or a fork, and decides which results of the earlier run it uses. Starts nothing.
 * @throws AppError for all that admission would refuse
 */
export async function prepareRerun(request: RerunRequest, context: Machine): Promise<PreparedRerun> {
  const { file, from, params, limits, continue: continueRequest, hasInput } = request;
  const kind = file === null ? 'retry' : 'fork';
  const earlier = await readEarlier(await findRunHere(kind, request.earlier, context), context);
  // A fork has a file of this machine as its spec.
  const confinedTo = file === null ? (earlier.confinedTo ?? context.confinedTo) : context.confinedTo;
  const read = await compileFrom(earlier, request, { ...context, confinedTo });
  const compiled = { ...read, plan: limitPlan(read.plan, limits), written: limitPlan(read.written, limits) };
  const origin: RunOrigin = {
    runId: earlier.runId,
    kind,
    from,
    ...(continueRequest === null ? {} : { continue: continueRequest }),
  };
  const reuse = chooseReuse(origin, { plan: compiled.plan, hasInput }, earlier, context);
  const continued =
    continueRequest === null
      ? null
      : await planContinuation(earlier, { plan: compiled.plan, reuse }, continueRequest, context);
  const plan = continued === null ? compiled.plan : withLimits(compiled.plan, continued.changed);
  const isSamePlan = file === null && params === null && limits.timeout === undefined && limits.deadline === undefined;
  return { compiled, plan, origin, reuse, continued, isSamePlan, confinedTo };
}

/** @throws AppError for everything that admission would refuse */
export function chooseReuse(
  origin: RunOrigin,
  { plan, hasInput, uploads = {} }: Pick<PlannedRun, 'plan' | 'uploads'> & { readonly hasInput: boolean },
  earlier: RecordedRun,
  context: Machine,
): Reuse {
  // The input is read when the run starts, and admission compares it. Until then a new input counts as a different one.
  const input: unknown = hasInput ? { kind: 'given' } : earlier.input;
  return reuseIn(origin, { plan, input, uploads }, { ...earlier, saved: readSavedVms(earlier, context) });
}

/** Returns the checkpoints of the run that are on this host. Admission reads them again. */
function readSavedVms({ runId, plan }: RecordedRun, { env }: Machine): ReadonlyMap<string, SavedVm> {
  const problem = `run ${formatRunId(runId)} keeps no checkpoint of its VM on this host`;
  return new Map(
    plan.scopes
      .filter(isSavedEachStep)
      .map(({ id }) => [id, { checkpoints: readStepCheckpoints(env.stateDir, runId, id), problem }]),
  );
}

/** @throws AppError when the run has not ended, or was never admitted */
export async function readEarlier(runId: string, context: Machine): Promise<RecordedRun> {
  const run = await readRecordedRun(runId, context);
  const { records } = await context.stores();
  refuseCommandRun(runId, (await records.get(runId, 'admission')) as AdmissionRecord | null | undefined, 'repeat');
  if (run.view.damage !== null || run.view.outcome !== null) return run;
  throw new AppError(
    'usage',
    'origin/open',
    `run ${formatRunId(runId)} has not ended: its outputs may still change`,
    `Wait for it: voidbox logs -f ${quoteRunId(runId)}\nOr end it: voidbox cancel ${quoteRunId(runId)}`,
  );
}

export type Compiled = CompiledRun | (Omit<CompiledRun, 'source'> & { readonly source: SourceRecord | null });

/** A retry keeps the limits that an earlier retry set, also with another value of a parameter. */
export async function compileFrom(earlier: RecordedRun, request: RerunRequest, context: Machine): Promise<Compiled> {
  const compiled = await compileAsWritten(earlier, request, context);
  const { limits } = earlier;
  if (request.file !== null || request.params === null || limits === undefined) return compiled;
  return { ...compiled, plan: withLimits(compiled.plan, limits), written: withLimits(compiled.written, limits) };
}

/** A fork repeats the mocks of the earlier run, where its stages have them. */
export function selectRepeated({ plan, source }: Pick<RecordedRun, 'plan' | 'source'>): RepeatedOptions {
  return {
    mode: source?.mode ?? null,
    mock: (next) => findMocksToRepeat(plan, next),
    mockAgents: listMockAgentStages(plan).length > 0 ? 'kept' : false,
  };
}

async function compileAsWritten(
  { runId, plan, baseDir, source }: RecordedRun,
  { file, params, images, onNotice }: RerunRequest,
  context: Machine,
): Promise<Compiled> {
  const { mock, mockAgents, mode } = selectRepeated({ plan, source });
  if (file !== null)
    return await compileRun(
      file,
      {
        params: params ?? {},
        settings: readSettings(context),
        mode,
        mock,
        mockAgents,
        images,
        onNotice,
      },
      context,
    );
  if (params === null)
    return {
      plan,
      written: plan,
      mock: null,
      mockAgents: null,
      images: [],
      baseDir: baseDir ?? context.cwd,
      places: new Map(),
      triggers: [],
      notify: NO_NOTIFY,
      deployProblems: [],
      source,
    };
  if (source === null)
    throw createUsageError(
      `the spec of run ${formatRunId(runId)} was not recorded, so \`--param\` cannot change it: the run was started by another client of your Temporal server`,
      `Name the file of its spec: ${renderCommand('fork', runId, { names: 'FILE', options: paramsText(params) })}`,
    );
  const compileOptions = {
    params: { ...source.params, ...params },
    // Another value of a parameter changes nothing else.
    settings: source.settings ?? null,
    mode: source.mode,
    mock,
    mockAgents,
    images,
    onNotice,
  } as const;
  if (source.text !== null)
    return await compileAgain({ ...source, text: source.text }, baseDir ?? context.cwd, compileOptions, context);
  return await compileRun(source.path ?? '', compileOptions, context);
}

function paramsText(params: Readonly<Record<string, string>>): string {
  return Object.entries(params)
    .map(([name, value]) => `--param ${quoteArgument(`${name}=${value}`)}`)
    .join(' ');
}

/** @throws AppError for everything that admission would refuse, before anything is started */
function reuseIn({ runId, kind, from }: RunOrigin, run: PlannedRun, earlier: EarlierRun): Reuse {
  const stages = ownStages(run.plan).map(({ id }) => id);
  const own = ownStageOf(run.plan)(from ?? '');
  if (from !== null && own !== from)
    throw createUsageError(
      `stage \`${from}\` is done for each item of ${own}, whose results can only be reused together`,
      `Start from that stage: --from ${quoteArgument(own)}`,
    );
  if (from !== null && !stages.includes(from)) {
    const meant = findNearest(from, stages);
    throw createUsageError(
      `the spec has no stage \`${from}\` to start from`,
      `${meant === null ? '' : `Did you mean ${meant}? `}Its stages: ${stages.slice(0, 20).join(', ')}${stages.length > 20 ? ', …' : ''}`,
    );
  }
  const [differing] = kind === 'fork' && from !== null ? findDifferingBefore(run, earlier, from) : [];
  if (differing !== undefined)
    throw new AppError(
      'usage',
      'origin/differs',
      `a fork of ${formatRunId(runId)} cannot start from ${from}: stage ${differing[0]} before it ${differing[1].length === 0 ? 'is not in that run' : `has another ${differing[1].join(', ')}`}`,
      'Remove `--from`, so that the fork starts at the first difference.',
    );
  const reuse = reuseOf(run, earlier, from);
  if (reuse.again.size === 0)
    throw createUsageError(
      `nothing of run ${formatRunId(runId)} has to run again: every stage succeeded and is unchanged`,
      `Name a stage to start from: ${renderCommand(kind, runId, { names: kind === 'fork' ? 'FILE' : '', options: `--from ${stages.at(-1) ?? 'STAGE'}` })}`,
    );
  return reuse;
}
