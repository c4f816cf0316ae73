/** Compiles a Spec to a Plan: the stages in the order of the spec, and the checks of the plan as a whole. */
import type { Diagnostic } from '../../errors/diagnostic.ts';
import { type Plan, type StagePlan, PLAN_VERSION } from '../../plan/plan.ts';
import { hostVariablesOf } from '../../plan-rules/variables.ts';
import { compileCondition, compileConditions, type Condition } from './stage/condition.ts';
import { reportSecrets, warnOfWrittenKeys } from './stage/env.ts';
import { compileLoops } from './loop.ts';
import { compileMock } from './stage/mock.ts';
import { compileOutputSchema } from './stage/output-schema.ts';
import { compileTexts } from './stage/texts.ts';
import { compileRunBudget } from './stage/budget.ts';
import { eachOf } from './stage/items.ts';
import type { ListFiles } from '../read/file-pattern.ts';
import { type AppliedSettings, createUnapplied, withHostSettings } from './apply-settings.ts';
import type { HostSettings } from './stage/host-settings.ts';
import type { CheckSchema } from '../schema/output-schema.ts';
import { compilePart, type PartContext } from './part.ts';
import type { ReadStepMachine } from '../problems/skill-params.ts';
import type { CheckExpressions } from '../expression/check.ts';
import { DEFAULT_MAX_PARALLEL } from '../grammar/values.ts';
import type { Links } from '../link/linked.ts';
import { linkStages } from '../link/links.ts';
import type { InlinedPart } from './inline-part.ts';
import type { PartFiles } from '../read/part-files.ts';
import { type MissingParams, resolveParams } from '../read/params.ts';
import { type ParamValues } from '../grammar/param-values.ts';
import { createFiller, type Filler } from '../grammar/placeholders.ts';
import { Problems, sortByFile } from '../text/diagnostics.ts';
import type { Spec, StageSpec } from '../read/spec.ts';
import { compileScopes, keepVmOfRetries } from './stage/scopes.ts';
import { compileDefaults, compileStage } from './stage/stage.ts';
import { edgesOf, toleranceOf, whenOf } from './stage/stage-edges.ts';
import { refuseDoubles, reportCycles } from '../problems/names.ts';
import { describeStage } from './stage/describe-stage.ts';
import { reportWhole } from './whole-plan.ts';
import { withFailuresOfParts } from '../problems/part-failures.ts';
import { warnOfUnused, warnOfUnusedParts } from '../problems/unused.ts';
import { compileGrace } from './grace.ts';

export interface CompileOptions {
  /** The absolute folder from which relative host paths of mounts start; null if the spec has no folder. */
  readonly baseDir: string | null;
  /** Values for the spec's parameters. */
  readonly params?: Readonly<Record<string, string>>;
  /** Collects names of parameters that a run must set and `params` does not contain. Absent: each one is an error. */
  readonly missingParams?: MissingParams;
  /** The checker of conditions. It is slow to load, and required only if a stage has a condition. */
  readonly checkExpression?: CheckExpressions;
  /** Lists files of `baseDir`. Absent: the compiler cannot read files of the author. */
  readonly listFiles?: ListFiles;
  /** Reads the step machine that a stage runs. Absent: the compiler cannot read files of the author. */
  readonly readStepMachine?: ReadStepMachine;
  /** Checks schemas of outputs; it is slow to load. Absent: another program checks them before a run starts. */
  readonly checkSchema?: CheckSchema;
  /** The specs that this one uses, directly or through its parts. Absent: it uses no other spec. */
  readonly files?: PartFiles;
  /** Settings of the host, which replace values of the spec and its parts. Absent: their values stay. */
  readonly settings?: HostSettings;
}

interface CompiledSpec {
  /** Null if there is an error; warnings do not prevent a plan. */
  readonly plan: Plan | null;
  readonly diagnostics: readonly Diagnostic[];
}

/** Compiles a Spec to a Plan: resolves names, fills defaults, and checks everything that needs no host. */
export function compilePlan(
  spec: Spec,
  options: CompileOptions,
): CompiledSpec & { readonly appliedSettings: AppliedSettings } {
  const parts = {
    files: options.files ?? new Map(),
    file: '',
    chain: [],
    ofItem: false,
    maxParallel: spec.maxParallel ?? DEFAULT_MAX_PARALLEL,
    total: { stages: spec.stages.length },
    found: [],
    appliedSettings: createUnapplied(),
  };
  const compiled = compileWithin(spec, options, parts);
  const diagnostics = sortByFile([...compiled.diagnostics, ...parts.found]);
  return { ...compiled, diagnostics, appliedSettings: parts.appliedSettings };
}

function compileWithin(written: Spec, options: CompileOptions, parts: PartContext): CompiledSpec {
  const problems = new Problems(written.file, written.gaps);
  const spec =
    options.settings === undefined
      ? written
      : withHostSettings(written, options.settings, parts.appliedSettings, problems);
  const plan = compile(spec, options, parts, problems);
  const diagnostics = problems.list();
  return { plan: diagnostics.some(({ severity }) => severity === 'error') ? null : plan, diagnostics };
}

function compile(spec: Spec, options: CompileOptions, parts: PartContext, problems: Problems): Plan | null {
  const params = resolveParams(
    spec.params,
    options.params ?? {},
    spec.name.at,
    problems,
    options.missingParams ?? null,
  );
  const { fill, split } = createFiller(params, problems);
  const context = { params, options, fill, parts, problems };
  const references = findReferences(spec, split, context);
  const { linked } = references;
  reportCycles(spec, linked, problems);
  reportSecrets(spec, problems);
  warnOfWrittenKeys(spec, problems);
  const { own, used } = compileStages(spec, references, context);
  const { stages: withLoops, output } = compileLoops(spec, own, linked.output, {
    compile: (until, what) => compileCondition(until, what, params, options.checkExpression!.condition, problems),
    problems,
  });
  const stages = withFailuresOfParts(withLoops);
  const scopes = [
    ...keepVmOfRetries(spec, compileScopes(spec, linked, options.baseDir, problems), own, problems),
    ...used.flatMap((part) => part?.scopes ?? []),
  ];
  refuseDoubles(spec, stages, scopes, problems);
  const grace = compileGrace(spec, stages, used, problems);
  if (output === null) return null;
  const plan: Plan = {
    version: PLAN_VERSION,
    kind: spec.kind,
    name: spec.name.value,
    stages,
    scopes,
    output,
    maxParallel: spec.maxParallel ?? DEFAULT_MAX_PARALLEL,
    ...(spec.timeoutMs === null ? {} : { timeoutMs: spec.timeoutMs }),
    ...grace,
    ...compileRunBudget(spec, stages, problems),
    hostVariables: hostVariablesOf(stages),
  };
  warnOfUnused(spec, plan, problems);
  if (parts.chain.length === 0) warnOfUnusedParts(spec, problems);
  reportWhole(plan, spec, problems);
  return plan;
}

/** References between stages: in conditions, in texts, and by the order of the spec. */
interface References {
  readonly conditions: ReturnType<typeof compileConditions>;
  readonly texts: ReturnType<typeof compileTexts>;
  readonly linked: ReturnType<typeof linkStages>;
}

function findReferences(
  spec: Spec,
  split: ReturnType<typeof createFiller>['split'],
  { params, options, parts, problems }: CompileContext,
): References {
  const conditions = compileConditions(spec, params, options.checkExpression?.condition ?? null, problems);
  const texts = compileTexts(spec, {
    params,
    check: options.checkExpression ?? null,
    split,
    ofItem: parts.ofItem,
    problems,
  });
  const linked = linkStages(
    spec,
    {
      conditions: conditions.map((condition) => condition?.reads ?? []),
      texts: texts.map((each) => each?.reads ?? []),
    },
    problems,
  );
  return { conditions, texts, linked };
}

interface CompiledStages {
  /** The stages in the order of the spec; the stages of a part are at the place of the part. */
  readonly own: readonly StagePlan[];
  /** For each stage of the spec, its part; null: the stage uses no part, or its part has an error. */
  readonly used: readonly (InlinedPart | null)[];
}

function compileStages(spec: Spec, { conditions, texts, linked }: References, context: CompileContext): CompiledStages {
  const { params, options, fill, parts, problems } = context;
  const defaults = compileDefaults(spec, problems);
  const used = spec.stages.map((stage, index) => {
    const links = linked.links[index]!;
    return stage.uses === null || links === null ? null : compileUse(spec, stage, links, conditions[index]!, context);
  });
  const own = spec.stages.flatMap((stage, index) => {
    const part = used[index];
    if (part !== null && part !== undefined) return part.stages;
    const compiled = compileStage(spec, stage, linked.links[index]!, {
      params,
      fill: (text) => texts[index]?.shown.get(text) ?? fill(text),
      texts: texts[index]!,
      defaults,
      baseDir: options.baseDir,
      mayLackValues: options.missingParams !== undefined,
      listFiles: options.listFiles,
      readStepMachine: options.readStepMachine ?? null,
      checkSchema: options.checkSchema ?? null,
      runMaxParallel: parts.maxParallel,
      condition: conditions[index]!,
      problems,
    });
    return compiled === null ? [] : [compiled];
  });
  return { own, used };
}

interface CompileContext {
  readonly params: ParamValues;
  readonly options: CompileOptions;
  readonly fill: Filler;
  readonly parts: PartContext;
  readonly problems: Problems;
}

function compileUse(
  spec: Spec,
  stage: StageSpec,
  links: Links,
  condition: Condition | null,
  context: CompileContext,
): InlinedPart | null {
  const { params: values, options, fill, parts, problems } = context;
  const { baseDir, listFiles } = options;
  const what = describeStage(spec, stage);
  const each = eachOf(spec, stage, links, {
    params: values,
    fill,
    baseDir,
    listFiles,
    runMaxParallel: parts.maxParallel,
    problems,
  });
  const place = {
    id: stage.name.value,
    ...edgesOf(links, (index) => spec.stages[index]!.name.value),
    when: whenOf(condition),
    input: links.input,
    handsOn: spec.kind === 'pipeline',
    ...(each === undefined ? {} : { each }),
    ...toleranceOf(stage),
    ...compileMock(stage, what, fill, problems),
    ...compileOutputSchema(stage, what, options.checkSchema ?? null, problems),
  };
  return compilePart(stage, place, what, {
    own: spec.parts,
    baseDir,
    fill,
    check: options.checkExpression ?? null,
    parts,
    compile: ({ spec: used, baseDir: folder, params, parts: within }) =>
      compileWithin(used, { ...options, baseDir: folder, params }, within),
    problems,
  });
}
