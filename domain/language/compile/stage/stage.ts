/** Compiles one stage of a spec that is not a part: its work, edges, inputs and outputs. */
import { AGENT_STAGE_DEFAULTS, INPUT_DEFAULTS, SERVICE_TIMEOUT_MS, STAGE_DEFAULTS } from '../../../plan/defaults.ts';
import type { StageInputPlan, StagePlan, WorkPlan } from '../../../plan/plan.ts';
import { isService } from '../../../plan/work.ts';
import { compileApproval } from './approval.ts';
import type { Condition } from './condition.ts';
import { compileEnv, compileSecrets } from './env.ts';
import { compileMock } from './mock.ts';
import { compileOutputSchema } from './output-schema.ts';
import { compileRetry } from './retry.ts';
import type { StageTexts } from './texts.ts';
import { compileWait } from './wait.ts';
import type { ListFiles } from '../../read/file-pattern.ts';
import { compileWorkspace } from '../vm/workspace.ts';
import { compileGuestPath } from '../vm/sandbox.ts';
import type { CheckSchema } from '../../schema/output-schema.ts';
import type { ReadStepMachine } from '../../problems/skill-params.ts';
import { GUEST_PATH_DEFAULTS } from '../../grammar/stage-table.ts';
import { RANGES, SCALES } from '../../grammar/values.ts';
import type { Links } from '../../link/linked.ts';
import { findOverlappingPairs } from '../../text/paths.ts';
import type { ParamValues } from '../../grammar/param-values.ts';
import type { Filler } from '../../grammar/placeholders.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { Spec, StageSpec } from '../../read/spec.ts';
import type { Located } from '../../text/tree.ts';
import { scopeOf } from './scopes.ts';
import { edgesOf, toleranceOf, whenOf } from './stage-edges.ts';
import { describeStage } from './describe-stage.ts';
import { compileWork } from './work.ts';
import { eachOf } from './items.ts';

export interface StageContext {
  readonly checkSchema: CheckSchema | null;
  readonly readStepMachine: ReadStepMachine | null;
  /** The `maxParallel` of the run, which is the default for items. */
  readonly runMaxParallel: number;
  readonly condition: Condition | null;
  readonly texts: StageTexts | null;
  readonly params: ParamValues;
  readonly fill: Filler;
  readonly defaults: StageDefaults;
  /** True if a parameter may lack its value, and then has a placeholder as its text. */
  readonly mayLackValues: boolean;
  readonly baseDir: string | null;
  readonly listFiles: ListFiles | undefined;
  readonly problems: Problems;
}

/** Returns null if the stage is not in the plan, or could not be read. */
export function compileStage(
  spec: Spec,
  stage: StageSpec,
  links: Links | null,
  context: StageContext,
): StagePlan | null {
  const { fill, defaults, condition, problems } = context;
  const what = describeStage(spec, stage);
  const secrets = compileSecrets(stage, what, problems);
  const env = compileEnv(
    [spec.sandbox?.env ?? [], spec.defaults?.env ?? [], stage.sandbox?.env ?? [], stage.env],
    secrets,
    fill,
  );
  const outputFile = compileOutputFile(spec, stage, what, problems);
  const inputPaths = compileInputPaths(stage, what, problems);
  const outputs = stage.outputs.map(({ name, guestPath }) => ({
    name: name.value,
    guestPath: guestPathOr(GUEST_PATH_DEFAULTS.output, guestPath, `an output of ${what}`, problems),
  }));
  const texts = context.texts === null ? {} : { texts: context.texts.plan };
  const outside = links === null ? null : compileWorkWithoutVm(stage, what, context);
  if (outside !== null && links !== null)
    return { ...stageWithoutVm(spec, stage, links, condition), ...toleranceOf(stage), work: outside, ...texts };
  const each = eachOf(spec, stage, links ?? { items: null }, context);
  const idOf = (index: number): string => spec.stages[index]!.name.value;
  const work = compileWork(spec, stage, links, { ...context, what, env });
  if (work === null || links === null) return null;
  return {
    id: stage.name.value,
    scope: scopeOf(spec, stage),
    ...edgesOf(links, idOf),
    when: whenOf(condition),
    ...(each === undefined ? {} : { each }),
    work,
    ...texts,
    input: stage.forEach === null ? links.input : { kind: 'none' },
    inputs: links.inputs.map(({ source, output, index }): StageInputPlan => ({
      fromStage: idOf(source),
      output,
      guestPath: inputPaths[index]!,
      optional: stage.inputs[index]!.optional ?? INPUT_DEFAULTS.optional,
    })),
    outputs,
    outputFile,
    timeoutMs: timeoutOf(work, stage, spec, defaults),
    retry: stage.retry === null ? defaults.retry : compileRetry(stage.retry, what, problems),
    ...toleranceOf(stage),
    ...compileMock(stage, what, fill, problems),
    ...compileOutputSchema(stage, what, context.checkSchema, problems),
    ...(stage.finally === true ? { finally: true } : {}),
    ...compileWorkspace(stage, inputPaths, {
      what,
      giver: links.workspace === null ? null : idOf(links.workspace),
      baseDir: context.baseDir,
      fill,
      mayLackValues: context.mayLackValues,
      problems,
    }),
    maxOutputBytes: stage.maxOutputBytes ?? defaults.maxOutputBytes,
  };
}

type StageDefaults = Pick<StagePlan, 'timeoutMs' | 'retry' | 'maxOutputBytes'>;

/** Compiles the defaults once per spec, so that each mistake is reported once. */
export function compileDefaults({ defaults }: Spec, problems: Problems): StageDefaults {
  return {
    timeoutMs: defaults?.timeoutMs ?? STAGE_DEFAULTS.timeoutMs,
    retry: compileRetry(defaults?.retry ?? null, '`defaults`', problems),
    maxOutputBytes: defaults?.maxOutputBytes ?? STAGE_DEFAULTS.maxOutputBytes,
  };
}

/** For an agent, 0 means the longest time limit that exists. */
function timeoutOf(work: WorkPlan, { timeoutMs, prompt }: StageSpec, spec: Spec, defaults: StageDefaults): number {
  if (isService(work)) return SERVICE_TIMEOUT_MS;
  if (timeoutMs === 0) return RANGES.timeoutSecs.max * SCALES.msPerSecond;
  if (prompt === null) return timeoutMs ?? defaults.timeoutMs;
  return timeoutMs ?? spec.defaults?.timeoutMs ?? AGENT_STAGE_DEFAULTS.timeoutMs;
}

/** Returns null if the stage has a VM. */
function compileWorkWithoutVm(
  { approval, wait }: StageSpec,
  what: string,
  { texts, fill, problems }: StageContext,
): WorkPlan | null {
  if (approval !== null) return compileApproval(approval, what, fill, problems);
  return wait === null ? null : compileWait(wait, what, texts?.plan ?? null, fill, problems);
}

/** Returns a stage without a VM: it has a place in the order, but no inputs and outputs in a guest. */
function stageWithoutVm(
  spec: Spec,
  { name, approval }: StageSpec,
  links: Links,
  condition: Condition | null,
): Omit<StagePlan, 'work'> {
  return {
    ...STAGE_DEFAULTS,
    id: name.value,
    scope: null,
    ...edgesOf(links, (index) => spec.stages[index]!.name.value),
    when: whenOf(condition),
    // A box that is passed over hands its input on.
    ...(condition !== null && approval !== null && spec.kind === 'pipeline' ? { input: links.input } : {}),
  };
}

function compileOutputFile(
  spec: Spec,
  { outputFile, prompt }: StageSpec,
  what: string,
  problems: Problems,
): string | null {
  if (outputFile !== null) return compileGuestPath(outputFile, `\`output_file\` of ${what}`, problems);
  // In a VM that stages share, the file may come from another agent, so the output is the last message.
  return prompt !== null && spec.kind !== 'workflow' ? AGENT_STAGE_DEFAULTS.outputFile : null;
}

function compileInputPaths(stage: StageSpec, what: string, problems: Problems): readonly string[] {
  const paths = stage.inputs.map(({ guestPath }) =>
    guestPathOr(GUEST_PATH_DEFAULTS.input, guestPath, `an input of ${what}`, problems),
  );
  for (const [first, second] of findOverlappingPairs(paths)) {
    problems.error(
      'spec/path-conflict',
      stage.inputs[second]!.from.at,
      `two inputs of ${what} overlap: ${paths[first]!} and ${paths[second]!}`,
      'give each its own `guest` path',
    );
  }
  return paths;
}

/** Returns the path even if it cannot be used, which is reported, so that other checks have a value. */
function guestPathOr(fallback: string, path: Located<string> | null, what: string, problems: Problems): string {
  return path === null ? fallback : (compileGuestPath(path, what, problems) ?? path.value);
}
