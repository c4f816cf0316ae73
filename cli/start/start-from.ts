/** `voidbox retry` and `voidbox fork`: a run that takes what an earlier one came to. */
import type { AdmissionRecord } from '../../activities/admission/admission-record.ts';
import type { SourceRecord } from '../../client/runs/client-record.ts';
import { differingBefore, type EarlierRun, type Reuse, reuseOf } from '../../domain/pipeline/reuse.ts';
import { sameMocks, type MockRequest } from '../../domain/plan-rules/mocks.ts';
import { playedStages } from '../../domain/plan-rules/mock-agents.ts';
import { withLimits } from '../../domain/plan-rules/agent-limits.ts';
import { ownStageOf, ownStages } from '../../domain/plan/item-parts.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import type { RunOrigin } from '../../domain/run/origin.ts';
import { nearest } from '../../domain/language/text/suggest.ts';
import { CliError, usageError } from '../cli-error.ts';
import { refuseCommandRun } from '../runs/command-run.ts';
import { compileAgain, type CompiledRun, compileRun } from './compile-run.ts';
import { continuedPlan, continueRequest, type ContinueOptions } from './continue-run.ts';
import type { CliContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import { settingsFor } from './host-settings.ts';
import { readRecordedRun, type RecordedRun } from '../runs/recorded-run.ts';
import { renderContinued } from '../render/runs/continued.ts';
import { renderReuse } from '../render/runs/reuse.ts';
import { findRunHere } from '../runs/run-elsewhere.ts';
import { typedRunId } from '../../domain/run/run-id.ts';
import { shownRunId, typedCommand } from '../runs/run-id.ts';
import { limitPlan } from './run-limits.ts';
import { type RunOptions, takeImagePlaces, takeRunOptions } from './run-options.ts';
import { typedArgument } from '../../domain/security/typed-argument.ts';

export interface StartFromOptions extends RunOptions, ContinueOptions {
  readonly from?: string;
}

/** @param file  the spec of a fork; null: that of the earlier run */
export async function startFrom(
  text: string,
  file: string | null,
  options: StartFromOptions,
  context: CliContext,
): Promise<ExitCode> {
  const kind = file === null ? 'retry' : 'fork';
  const request = continueRequest(options, text);
  if (file === '-' && options.input === '-') throw usageError('standard input cannot be both the spec and the input');
  const earlier = await readEarlier(await findRunHere(kind, text, context), context);
  const read = await compiledFrom(earlier, file, options, context);
  const compiled = { ...read, plan: limitPlan(read.plan, options), written: limitPlan(read.written, options) };
  const origin: RunOrigin = {
    runId: earlier.runId,
    kind,
    from: options.from ?? null,
    ...(request === null ? {} : { continue: request }),
  };
  // Read when the run starts, and compared by admission: until then one that is given counts as another.
  const input: unknown = options.input === undefined ? earlier.input : { kind: 'given' };
  const reuse = reuseIn(origin, { plan: compiled.plan, input: input }, earlier);
  const continued =
    request === null ? null : await continuedPlan(earlier, { plan: compiled.plan, reuse }, request, context);
  const taken = takeRunOptions(compiled.plan, options, context, new Set(reuse.given.keys()));
  if (options.json !== true) {
    const { style } = context.stderr;
    const lines = [
      ...renderReuse(origin, reuse, style),
      ...(continued === null ? [] : renderContinued(compiled.plan, continued, context.now().getTime(), style)),
    ];
    await context.stderr.write(`${lines.join('\n')}\n`);
  }
  const { runPlan } = await import('./run-plan.ts');
  const isSamePlan =
    file === null && options.param === undefined && options.timeout === undefined && options.deadline === undefined;
  const plan = continued === null ? compiled.plan : withLimits(compiled.plan, continued.changed);
  return await runPlan({ ...compiled, ...taken, plan, from: { origin, reuse, continued, isSamePlan } }, context);
}

/** @throws CliError when the run has not ended, or was never admitted */
async function readEarlier(runId: string, context: CliContext): Promise<RecordedRun> {
  const run = await readRecordedRun(runId, context);
  const { records } = await context.stores();
  refuseCommandRun(runId, (await records.get(runId, 'admission')) as AdmissionRecord | null | undefined, 'repeat');
  if (run.view.damage !== null || run.view.outcome !== null) return run;
  throw new CliError(
    EXIT.usage,
    'origin/open',
    `run ${shownRunId(runId)} has not ended: its outputs may still change`,
    `Wait for it: voidbox logs -f ${typedRunId(runId)}\nOr end it: voidbox cancel ${typedRunId(runId)}`,
  );
}

type Compiled = CompiledRun | (Omit<CompiledRun, 'source'> & { readonly source: SourceRecord | null });

/** A retry keeps the limits that an earlier retry set, also with another value of a parameter. */
async function compiledFrom(
  earlier: RecordedRun,
  file: string | null,
  options: StartFromOptions,
  context: CliContext,
): Promise<Compiled> {
  const compiled = await compiledAsWritten(earlier, file, options, context);
  const { limits } = earlier;
  if (file !== null || options.param === undefined || limits === undefined) return compiled;
  return { ...compiled, plan: withLimits(compiled.plan, limits), written: withLimits(compiled.written, limits) };
}

async function compiledAsWritten(
  { runId, plan, baseDir, source }: RecordedRun,
  file: string | null,
  options: StartFromOptions,
  context: CliContext,
): Promise<Compiled> {
  const { param, json = false } = options;
  const images = takeImagePlaces(options, context);
  const mockAgents = playedStages(plan).length > 0 ? 'kept' : false;
  const mock = (next: Plan): MockRequest | null => sameMocks(plan, next);
  if (file !== null)
    return await compileRun(
      file,
      {
        params: param ?? {},
        settings: settingsFor(context),
        mode: source?.mode ?? null,
        mock,
        mockAgents,
        images,
        json,
      },
      context,
    );
  if (param === undefined)
    return {
      plan,
      written: plan,
      mock: null,
      mockAgents: null,
      images: [],
      baseDir: baseDir ?? context.cwd,
      places: new Map(),
      source,
    };
  if (source === null)
    throw usageError(
      `the spec of run ${shownRunId(runId)} was not recorded, so \`--param\` can't change it: the run was started by another client of your Temporal server`,
      `Name the file of its spec: ${typedCommand('fork', runId, { names: 'FILE', options: paramsText(param) })}`,
    );
  const compileOptions = {
    params: { ...source.params, ...param },
    // Another value of a parameter changes nothing else.
    settings: source.settings ?? null,
    mode: source.mode,
    mock,
    mockAgents,
    images,
    json,
  } as const;
  if (source.text !== null)
    return await compileAgain({ ...source, text: source.text }, baseDir ?? context.cwd, compileOptions, context);
  return await compileRun(source.path ?? '', compileOptions, context);
}

function paramsText(params: Readonly<Record<string, string>>): string {
  return Object.entries(params)
    .map(([name, value]) => `--param ${typedArgument(`${name}=${value}`)}`)
    .join(' ');
}

/** @throws CliError what admission would refuse, before anything is started */
function reuseIn(
  { runId, kind, from }: RunOrigin,
  run: { readonly plan: Plan; readonly input: unknown },
  earlier: EarlierRun,
): Reuse {
  const stages = ownStages(run.plan).map(({ id }) => id);
  const own = ownStageOf(run.plan)(from ?? '');
  if (from !== null && own !== from)
    throw usageError(
      `stage \`${from}\` is done for each item of ${own}, whose results are taken together or not at all`,
      `Start from that stage: --from ${typedArgument(own)}`,
    );
  if (from !== null && !stages.includes(from)) {
    const meant = nearest(from, stages);
    throw usageError(
      `the spec has no stage \`${from}\` to start from`,
      `${meant === null ? '' : `Did you mean ${meant}? `}Its stages: ${stages.slice(0, 20).join(', ')}${stages.length > 20 ? ', …' : ''}`,
    );
  }
  const [differing] = kind === 'fork' && from !== null ? differingBefore(run, earlier, from) : [];
  if (differing !== undefined)
    throw new CliError(
      EXIT.usage,
      'origin/differs',
      `a fork of ${shownRunId(runId)} can't start from ${from}: stage ${differing[0]} before it ${differing[1].length === 0 ? 'is not in that run' : `has another ${differing[1].join(', ')}`}`,
      'Leave out `--from`, so that it starts where the specs differ.',
    );
  const reuse = reuseOf(run, earlier, from);
  if (reuse.again.size === 0)
    throw usageError(
      `nothing of run ${shownRunId(runId)} is left to run: every stage succeeded and is the same`,
      `Name where to start: ${typedCommand(kind, runId, { names: kind === 'fork' ? 'FILE' : '', options: `--from ${stages.at(-1) ?? 'STAGE'}` })}`,
    );
  return reuse;
}
