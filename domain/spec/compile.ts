import { CLI_NEEDS, cliOf } from '../agent/agent-cli.ts';
import type { Diagnostic } from '../errors/diagnostic.ts';
import {
  AGENT_STAGE_DEFAULTS,
  COMMAND_DEFAULTS,
  GRACE_MS,
  INPUT_DEFAULTS,
  SANDBOX_DEFAULTS,
  SERVICE_TIMEOUT_MS,
  STAGE_DEFAULTS,
} from '../plan/defaults.ts';
import {
  type EachPlan,
  type EdgePlan,
  type EnvPlan,
  type Plan,
  type LlmPlan,
  PLAN_LIMITS,
  PLAN_VERSION,
  type ScopePlan,
  type StageInputPlan,
  type StagePlan,
  type WorkPlan,
} from '../plan/plan.ts';
import { coveredStages, machineBytes, machinePlanOf } from '../pipeline/machine-plan.ts';
import { planBytes } from '../plan/wire.ts';
import { edgesOnSuccess, hostVariablesOf, isService, partOf } from '../plan/work.ts';
import { type AgentContext, compileAgent, planOfLlm } from './compile-agent.ts';
import { compileApproval } from './compile-approval.ts';
import { type Condition, compileCondition, compileConditions } from './compile-condition.ts';
import { compileEnv, compileSecrets, reportSecrets } from './compile-env.ts';
import { compileLoops } from './compile-loop.ts';
import { compileMock } from './compile-mock.ts';
import { compileOutputSchema } from './compile-output-schema.ts';
import { compileRetry } from './compile-retry.ts';
import { compileSkillWork, hasAgent, llmOf } from './compile-skill.ts';
import { compileTexts, type StageTexts } from './compile-texts.ts';
import { compileWait } from './compile-wait.ts';
import { compileRunBudget } from './compile-budget.ts';
import { compileEach, checkItems } from './compile-items.ts';
import type { ListFiles } from './file-pattern.ts';
import { checkWorkspaceVm, compileWorkspace, workspaceFolder } from './compile-workspace.ts';
import { compileGuestPath, compileSandbox } from './compile-sandbox.ts';
import { checkAgentVm } from './agent-vm.ts';
import { warnOfLittleMemory } from './little-memory.ts';
import type { CheckSchema } from './output-schema.ts';
import { compilePart, type PartContext } from './compile-part.ts';
import type { ReadSkill } from './skill-params.ts';
import type { CheckExpressions } from './expression/check.ts';
import { GUEST_PATH_DEFAULTS } from './grammar/stage-table.ts';
import { DEFAULT_MAX_PARALLEL, RANGES, SCALES } from './grammar/values.ts';
import { cycles, describeCycle } from './graph.ts';
import { type Linked, type Links, linkStages } from './links.ts';
import type { InlinedPart } from './inline-part.ts';
import type { PartFiles } from './part-files.ts';
import { overlaps } from './paths.ts';
import { type ParamValues, resolveParams } from './params.ts';
import { warnOfParamsInCode } from './params-in-code.ts';
import { type Filler, createFiller } from './placeholders.ts';
import { Problems, sortByFile } from './problems.ts';
import { serviceProblems } from './service-problems.ts';
import { warnOfShellInProgram } from './shell-in-program.ts';
import type { Spec, StageSpec } from './spec.ts';
import { type Located, type Position, quote } from './tree.ts';
import { warnOfUnorderedWriters } from './unordered-writers.ts';

/** The scope that steps of a workflow share. No step can have this name: names begin with a letter or digit. */
export const SHARED_SCOPE = '_shared';

export interface CompileOptions {
  /** Absolute folder that relative host paths of mounts start from; null when the spec comes without one. */
  readonly baseDir: string | null;
  /** Values for the spec's parameters. */
  readonly params?: Readonly<Record<string, string>>;
  /** The language of conditions, which takes its time to load; needed where a stage has one. */
  readonly checkExpression?: CheckExpressions;
  /** Lists files of `baseDir`; absent: whoever compiles sees no files of the author. */
  readonly listFiles?: ListFiles;
  /** Looks at a skill that a stage runs; absent: whoever compiles sees no files of the author. */
  readonly readSkill?: ReadSkill;
  /** What judges schemas of outputs, which takes its time to load; without it who compiles has them checked elsewhere. */
  readonly checkSchema?: CheckSchema;
  /** The specs that it uses, near and far; absent: it has none beside it. */
  readonly files?: PartFiles;
}

/**
 * Turns a Spec into a Plan: names resolved, defaults filled, everything checked that needs no host.
 * @returns `plan` is null when there is an error; warnings alone leave it
 */
export function compilePlan(
  spec: Spec,
  options: CompileOptions,
): { readonly plan: Plan | null; readonly diagnostics: readonly Diagnostic[] } {
  const parts = {
    files: options.files ?? new Map(),
    file: '',
    chain: [],
    maxParallel: spec.maxParallel ?? DEFAULT_MAX_PARALLEL,
    total: { stages: spec.stages.length },
    found: [],
  };
  const compiled = compileWithin(spec, options, parts);
  const diagnostics = sortByFile([...compiled.diagnostics, ...parts.found]);
  return { ...compiled, diagnostics };
}

function compileWithin(spec: Spec, options: CompileOptions, parts: PartContext): ReturnType<typeof compilePlan> {
  const problems = new Problems(spec.file, spec.gaps);
  const plan = compile(spec, options, parts, problems);
  const diagnostics = problems.list();
  return { plan: diagnostics.some(({ severity }) => severity === 'error') ? null : plan, diagnostics };
}

function compile(spec: Spec, options: CompileOptions, parts: PartContext, problems: Problems): Plan | null {
  const params = resolveParams(spec.params, options.params ?? {}, spec.name.at, problems);
  const { fill, split } = createFiller(params, problems);
  const conditions = compileConditions(spec, params, options.checkExpression?.condition ?? null, problems);
  const texts = compileTexts(spec, {
    params,
    check: options.checkExpression ?? null,
    split,
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
  reportCycles(spec, linked, problems);
  reportSecrets(spec, problems);
  const defaults = compileDefaults(spec, problems);
  const used = spec.stages.map((stage, index) => {
    const links = linked.links[index]!;
    return stage.uses === null || links === null
      ? null
      : compileUse(spec, stage, links, conditions[index]!, { params, options, fill, parts, problems });
  });
  const own = spec.stages.flatMap(
    (stage, index) =>
      used[index]?.stages ??
      compileStage(spec, stage, linked.links[index]!, {
        params,
        fill: (text) => texts[index]?.shown.get(text) ?? fill(text),
        texts: texts[index]!,
        defaults,
        baseDir: options.baseDir,
        listFiles: options.listFiles,
        readSkill: options.readSkill ?? null,
        checkSchema: options.checkSchema ?? null,
        parts,
        condition: conditions[index]!,
        problems,
      }) ??
      [],
  );
  const { stages: withLoops, output } = compileLoops(spec, own, linked.output, {
    compile: (until, what) => compileCondition(until, what, params, options.checkExpression!.condition, problems),
    problems,
  });
  const stages = withFailuresOfParts(withLoops);
  const scopes = [
    ...compileScopes(spec, linked, options.baseDir, problems),
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
  warnOfUnused(spec, problems);
  if (parts.chain.length === 0) warnOfUnusedParts(spec, problems);
  checkSize(plan, spec.sectionAt, problems);
  const places = new Map(spec.stages.map((stage) => [stage.name.value, stage.name.at]));
  // A stage of a part stands where the part is used.
  const placeOf = (stage: string): Position =>
    places.get(stage) ?? places.get(stage.split('.', 1)[0]!) ?? spec.sectionAt;
  checkItems(plan, placeOf, problems);
  for (const { stage, message, remedy } of serviceProblems(plan))
    problems.error('spec/bad-value', placeOf(stage), message, remedy);
  warnOfUnorderedWriters(plan, (stage) => places.get(stage) ?? spec.sectionAt, problems);
  return plan;
}

/** Time for the stages with `finally`; nothing where there is none. */
function compileGrace(
  spec: Spec,
  stages: readonly StagePlan[],
  used: readonly (InlinedPart | null)[],
  problems: Problems,
): Pick<Plan, 'graceMs'> {
  const last = stages.filter((stage) => stage.finally === true);
  const own = spec.stages.filter((stage) => stage.finally === true);
  if (last.length === 0 && own.length === 0) return {};
  if (own.length === spec.stages.length)
    problems.error(
      'spec/bad-value',
      own[0]!.name.at,
      'every stage has `finally`, so there is none that they run after',
      'remove `finally`, or add the stages that do the work',
    );
  if (last.length > PLAN_LIMITS.finallyStages)
    problems.error(
      'spec/too-large',
      spec.sectionAt,
      `${last.length} stages have \`finally\`${own.length === last.length ? '' : ', those of its parts included'}; at most ${PLAN_LIMITS.finallyStages} may`,
      'do their work in fewer stages',
    );
  // Each part was given time of its own: the longest is enough for the stages that had it.
  const longest = Math.max(own.length === 0 ? 0 : GRACE_MS, ...used.map((part) => part?.graceMs ?? 0));
  return { graceMs: spec.graceMs ?? longest };
}

/** What the spec says and no stage asks for, or none of this build's VMs has. */
function warnOfUnused(spec: Spec, problems: Problems): void {
  if (spec.llm !== null && spec.stages.every((stage) => !hasAgent(stage) && !stage.isShell))
    problems.warning(
      'spec/unsupported',
      spec.llm.at,
      '`llm` has no effect: no stage is an agent',
      'remove it, or write a stage with `prompt` or `skill`',
    );
}

/** Parts of the first file alone: a file that others use may hold more than they take. */
function warnOfUnusedParts(spec: Spec, problems: Problems): void {
  const used = new Set(spec.stages.map(({ uses }) => uses?.value));
  // A list that grows while it is walked is walked to its end.
  const reached = spec.parts.filter(({ name }) => used.has(name.value));
  for (const { spec: part } of reached)
    for (const { uses } of part?.stages ?? []) {
      const next = spec.parts.find(({ name }) => name.value === uses?.value);
      if (next !== undefined && !reached.includes(next)) reached.push(next);
    }
  for (const part of spec.parts)
    if (!reached.includes(part))
      problems.warning(
        'spec/part-unused',
        part.name.at,
        `part ${quote(part.name.value)} is used by no stage and never runs`,
        `write \`uses: ${part.name.value}\` in a stage, or remove it`,
      );
}

/** A stage of a part has the name of one that the spec has itself. */
function refuseDoubles(
  spec: Spec,
  stages: readonly StagePlan[],
  scopes: readonly ScopePlan[],
  problems: Problems,
): void {
  const own = new Map(spec.stages.map(({ name }) => [name.value, name.at]));
  for (const list of [stages, scopes]) {
    const seen = new Set<string>();
    for (const { id } of list) {
      const at = seen.has(id) ? own.get(id) : undefined;
      seen.add(id);
      if (at !== undefined && id.includes('.') && !doubleNames(spec).has(id))
        problems.error(
          'spec/duplicate-name',
          at,
          `${quote(id)} is the name of a stage of a part as well: they stand in the plan under the part's name and a dot`,
          'rename one of them',
        );
    }
  }
}

interface UseContext {
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
  context: UseContext,
): InlinedPart | null {
  const { options, fill, parts } = context;
  const { problems } = context;
  const what = describeStage(spec, stage);
  const each = eachOf(spec, stage, links, context);
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
    baseDir: options.baseDir,
    fill,
    check: options.checkExpression ?? null,
    parts,
    compile: ({ spec: used, baseDir, params, parts: within }) =>
      compileWithin(used, { ...options, baseDir, params }, within),
    problems,
  });
}

function eachOf(
  spec: Spec,
  stage: StageSpec,
  { items }: Pick<Links, 'items'>,
  { params, options: { baseDir, listFiles }, fill, parts, problems }: UseContext,
): EachPlan | undefined {
  return compileEach(stage, {
    source: items === null ? null : spec.stages[items]!.name.value,
    runMaxParallel: parts.maxParallel,
    params,
    fill,
    baseDir,
    listFiles,
    what: describeStage(spec, stage),
    problems,
  });
}

/** What ends a part fails because of it only where that is tolerated; else the part has failed once one of its stages has. */
function withFailuresOfParts(stages: readonly StagePlan[]): readonly StagePlan[] {
  const tolerated = new Set(stages.flatMap(({ id, continueOnError }) => (continueOnError === true ? [id] : [])));
  const last = new Set(stages.flatMap(({ id, finally: isLast }) => (isLast === true ? [id] : [])));
  // Of a part that is done for each item the stage itself fails, once too many items have.
  const parts = new Map(
    stages.map(({ id, work, each }) => [id, each === undefined && !tolerated.has(id) ? partOf(work) : null]),
  );
  const covered = new Set(stages.flatMap(coveredStages));
  const inItems = new Map(stages.map(({ id, of }) => [id, of]));
  return stages.map((stage) => {
    const within = (id: string): readonly string[] =>
      (parts.get(id)?.stages ?? []).filter(
        (each) =>
          !tolerated.has(each) &&
          !covered.has(each) &&
          !last.has(each) &&
          parts.get(each) === null &&
          inItems.get(each) === stage.of,
      );
    const failures = stage.after.filter(({ on }) => on === 'failure').map((edge) => edge.stage);
    const more = [...new Set(failures.flatMap(within))].filter((id) => !failures.includes(id));
    if (more.length === 0) return stage;
    return {
      ...stage,
      after: [...stage.after, ...more.map((id): EdgePlan => ({ stage: id, on: 'failure' }))],
      anyFailure: true,
    };
  });
}

function reportCycles(spec: Spec, linked: Linked, problems: Problems): void {
  const dependencies = linked.links.map((links) => (links === null ? [] : [...links.dependsOn, ...links.onFailure]));
  const name = (index: number): string => quote(spec.stages[index]!.name.value);
  const doubles = doubleNames(spec);
  const isBox = spec.kind === 'pipeline';
  for (const group of cycles(dependencies)) {
    // Of two steps with a name, the edges may lead to the other one.
    if (group.some((index) => doubles.has(spec.stages[index]!.name.value))) continue;
    const shown = describeCycle(group, dependencies, name);
    const message =
      group.length === 1
        ? `${isBox ? 'box' : 'step'} ${name(group[0]!)} waits for itself`
        : `${isBox ? 'boxes' : 'steps'} wait for each other: ${shown}`;
    problems.error(
      'spec/cycle',
      spec.stages[group[0]!]!.name.at,
      message,
      `remove one of the dependencies (${isBox ? '' : '`depends_on`, '}\`on_failure\`, \`stdin_from\`, \`inputs\`, \`workspace\`, \`when\` and outputs in placeholders are dependencies)`,
    );
  }
}

function doubleNames(spec: Spec): ReadonlySet<string> {
  const seen = new Set<string>();
  return new Set(spec.stages.flatMap(({ name: { value } }) => (seen.has(value) ? [value] : (seen.add(value), []))));
}

/** The model of each agent in a VM. Mistakes in it are the stage's to report. */
function agentsOf(spec: Spec, running: readonly StageSpec[], scope: string): readonly (LlmPlan | null)[] {
  return running
    .filter((stage) => (hasAgent(stage) || stage.isShell) && scopeOf(spec, stage) === scope)
    .map((stage) => {
      const llm = llmOf(spec, stage);
      return llm === null ? null : planOfLlm(llm);
    });
}

/** A box is its own scope; steps share one unless they have a `sandbox` of their own. */
function compileScopes(spec: Spec, linked: Linked, baseDir: string | null, problems: Problems): readonly ScopePlan[] {
  const running = spec.stages.filter(
    ({ approval, wait, uses }, index) =>
      linked.links[index] !== null && approval === null && wait === null && uses === null,
  );
  const scopes = new Map<string, { stages: string[]; sandbox: ScopePlan['sandbox'] }>();
  // Of a VM that nothing is said of, what is in it decides.
  const forAgents = new Set(
    running.flatMap((stage) => (hasAgent(stage) || stage.isShell ? [scopeOf(spec, stage)] : [])),
  );
  for (const stage of running) {
    const id = scopeOf(spec, stage);
    const agents = forAgents.has(id) ? agentsOf(spec, running, id) : [];
    const memoryMib = memoryFor(agents);
    const scope = scopes.get(id);
    if (scope !== undefined) scope.stages.push(stage.name.value);
    else {
      const facts = { memoryMib, agents, hasWorkspace: stage.workspace !== null };
      const sandbox = compileSandbox(spec.sandbox, stage.sandbox, baseDir, facts, problems);
      warnOfLittleMemory(stage.name, sandbox, agents.length > 0, problems);
      const ofAgents = agentsOf(spec, running.filter(hasAgent), id);
      checkAgentVm(stage.name, { base: spec.sandbox, own: stage.sandbox, sandbox, agents: ofAgents }, problems);
      scopes.set(id, { stages: [stage.name.value], sandbox });
    }
  }
  for (const stage of running)
    checkWorkspaceVm(stage, describeStage(spec, stage), scopes.get(scopeOf(spec, stage))!.sandbox, problems);
  return [...scopes].map(([id, { stages, sandbox }]) => ({ id, stages, sandbox }));
}

/** Of a VM that nothing is said of: what the command lines of its agents need. */
function memoryFor(agents: readonly (LlmPlan | null)[]): number {
  return Math.max(SANDBOX_DEFAULTS.memoryMib, ...agents.map((llm) => CLI_NEEDS[cliOf(llm)].memoryMib));
}

function scopeOf(spec: Spec, stage: StageSpec): string {
  // Items that run side by side cannot share a VM with other steps.
  // The shared VM may be lost, or hold a command that would not stop, when a stage with `finally` starts.
  // Of a VM that is lost each stage runs again, and a workspace is there once.
  const hasItsOwn =
    stage.sandbox !== null || stage.forEach !== null || stage.finally === true || stage.workspace !== null;
  return spec.kind === 'workflow' && !hasItsOwn ? SHARED_SCOPE : stage.name.value;
}

function describeStage(spec: Spec, { name }: StageSpec): string {
  switch (spec.kind) {
    case 'workflow':
      return `step ${quote(name.value)}`;
    case 'pipeline':
      return `box ${quote(name.value)}`;
    case 'agent':
      return '`agent`';
    case 'sandbox':
      return 'the sandbox';
  }
}

interface StageContext {
  readonly checkSchema: CheckSchema | null;
  readonly readSkill: ReadSkill | null;
  readonly parts: PartContext;
  readonly condition: Condition | null;
  readonly texts: StageTexts | null;
  readonly params: ParamValues;
  readonly fill: Filler;
  readonly defaults: StageDefaults;
  readonly baseDir: string | null;
  readonly listFiles: ListFiles | undefined;
  readonly problems: Problems;
}

/** Null: the stage is no part of the plan, or could not be read. */
function compileStage(spec: Spec, stage: StageSpec, links: Links | null, context: StageContext): StagePlan | null {
  const { params, fill, defaults, condition, problems } = context;
  const { run, approval, wait, prompt } = stage;
  const what = describeStage(spec, stage);
  const isAgent = prompt !== null;
  const secrets = compileSecrets(stage, what, problems);
  const env = compileEnv(
    [spec.sandbox?.env ?? [], spec.defaults?.env ?? [], stage.sandbox?.env ?? [], stage.env],
    secrets,
    fill,
  );
  const outputFile =
    stage.outputFile === null
      ? // In a VM that stages share, the file may be another agent's: there the last message is the output.
        isAgent && spec.kind !== 'workflow'
        ? AGENT_STAGE_DEFAULTS.outputFile
        : null
      : compileGuestPath(stage.outputFile, `\`output_file\` of ${what}`, problems);
  const inputPaths = compileInputPaths(stage, what, problems);
  const outputs = stage.outputs.map(({ name, guestPath }) => ({
    name: name.value,
    guestPath: guestPathOr(GUEST_PATH_DEFAULTS.output, guestPath, `an output of ${what}`, problems),
  }));
  if (approval !== null && links !== null) {
    return {
      ...stageWithoutVm(spec, stage, links, condition),
      ...toleranceOf(stage),
      work: compileApproval(approval, what, fill, problems),
      ...(context.texts === null ? {} : { texts: context.texts.plan }),
    };
  }
  if (wait !== null && links !== null)
    return {
      ...stageWithoutVm(spec, stage, links, condition),
      ...toleranceOf(stage),
      work: compileWait(wait, what, context.texts?.plan ?? null, fill, problems),
      ...(context.texts === null ? {} : { texts: context.texts.plan }),
    };
  const each = eachOf(spec, stage, links ?? { items: null }, {
    params,
    options: { baseDir: context.baseDir, ...(context.listFiles === undefined ? {} : { listFiles: context.listFiles }) },
    fill,
    parts: context.parts,
    problems,
  });
  const idOf = (index: number): string => spec.stages[index]!.name.value;
  const work = compileWork(spec, stage, links, { ...context, what, env });
  if (work === null || links === null || (run === null && !hasAgent(stage) && !stage.isShell)) return null;
  return {
    id: stage.name.value,
    scope: scopeOf(spec, stage),
    ...edgesOf(links, idOf),
    when: whenOf(condition),
    ...(each === undefined ? {} : { each }),
    work,
    ...(context.texts === null ? {} : { texts: context.texts.plan }),
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
      problems,
    }),
    maxOutputBytes: stage.maxOutputBytes ?? defaults.maxOutputBytes,
  };
}

type StageDefaults = Pick<StagePlan, 'timeoutMs' | 'retry' | 'maxOutputBytes'>;

/** Once for the spec, so that a mistake in it is told once. */
function compileDefaults({ defaults }: Spec, problems: Problems): StageDefaults {
  return {
    timeoutMs: defaults?.timeoutMs ?? STAGE_DEFAULTS.timeoutMs,
    retry: compileRetry(defaults?.retry ?? null, '`defaults`', problems),
    maxOutputBytes: defaults?.maxOutputBytes ?? STAGE_DEFAULTS.maxOutputBytes,
  };
}

function edgesOf(
  { dependsOn, onFailure }: Links,
  idOf: (index: number) => string,
): Pick<StagePlan, 'after' | 'anyFailure'> {
  const failures = onFailure.map((index) => ({ stage: idOf(index), on: 'failure' }) as const);
  return {
    after: [...edgesOnSuccess(dependsOn.map(idOf)), ...failures],
    ...(failures.length > 1 ? { anyFailure: true } : {}),
  };
}

function toleranceOf({ continueOnError }: StageSpec): Pick<StagePlan, 'continueOnError'> {
  return continueOnError === true ? { continueOnError } : {};
}

interface WorkContext extends StageContext {
  readonly what: string;
  readonly env: readonly EnvPlan[];
}

/** What happens in the stage's VM; null: it could not be read. */
function compileWork(
  spec: Spec,
  stage: StageSpec,
  links: Links | null,
  { params, texts, readSkill, fill, baseDir, what, env, problems }: WorkContext,
): WorkPlan | null {
  const { run, prompt, skill } = stage;
  if (stage.isShell) return { kind: 'shell', env };
  const agent: AgentContext = {
    what,
    llm: llmOf(spec, stage),
    env,
    baseDir,
    fill,
    compileEnv: (layer) => compileEnv([layer], [], fill),
    problems,
  };
  if (prompt !== null) return compileAgent(stage, prompt, agent);
  if (skill !== null)
    return compileSkillWork(stage, skill, { ...agent, params, texts: texts?.plan ?? null, readSkill });
  if (run === null) return null;
  warnOfShellInProgram(run, what, problems);
  warnOfParamsInCode(stage, spec, what, problems);
  if (stage.mode !== null && stage.timeoutMs !== null)
    problems.error(
      'spec/bad-value',
      stage.mode.at,
      `${what} has \`mode: service\` and \`timeout_secs\``,
      'remove one of them: a service has no time limit',
    );
  const stdin = links?.stdin ?? null;
  return {
    kind: 'command',
    program: compileProgram(run.program, what, fill, problems),
    args: run.args.map((arg) => fill(arg)),
    cwd:
      run.cwd === null
        ? stage.workspace === null
          ? COMMAND_DEFAULTS.cwd
          : workspaceFolder(stage.workspace)
        : compileCwd(run.cwd, what, problems),
    env,
    stdin: stdin === null ? { kind: 'none' } : { kind: 'stage-output', stage: spec.stages[stdin]!.name.value },
    ...(stage.mode === null ? {} : { service: true }),
  };
}

/** What its parameters leave of it; one that names no declared parameter was reported as that. */
function compileProgram(program: Located<string>, what: string, fill: Filler, problems: Problems): string {
  const errorsBefore = problems.errorCount();
  const filled = fill(program);
  if (filled === '' && program.value !== '' && problems.errorCount() === errorsBefore)
    problems.error(
      'spec/bad-value',
      program.at,
      `\`program\` of ${what} is ${quote(program.value)}, of which its parameters leave nothing`,
      'give the parameter the name of a program',
    );
  return filled;
}

/** Of an agent 0 is the longest that there is. */
function timeoutOf(work: WorkPlan, { timeoutMs, prompt }: StageSpec, spec: Spec, defaults: StageDefaults): number {
  if (isService(work)) return SERVICE_TIMEOUT_MS;
  if (timeoutMs === 0) return RANGES.timeoutSecs.max * SCALES.msPerSecond;
  if (prompt === null) return timeoutMs ?? defaults.timeoutMs;
  return timeoutMs ?? spec.defaults?.timeoutMs ?? AGENT_STAGE_DEFAULTS.timeoutMs;
}

/** What work without a VM has: an order, and nothing that a guest would find or leave. */
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
    // A box that is passed hands it on.
    ...(condition !== null && approval !== null && spec.kind === 'pipeline' ? { input: links.input } : {}),
  };
}

function whenOf(condition: Condition | null): StagePlan['when'] {
  if (condition === null) return null;
  const { source, stages, params } = condition;
  return { source, stages, params };
}

function compileInputPaths(stage: StageSpec, what: string, problems: Problems): readonly string[] {
  const paths = stage.inputs.map(({ guestPath }) =>
    guestPathOr(GUEST_PATH_DEFAULTS.input, guestPath, `an input of ${what}`, problems),
  );
  for (const [first, second] of overlaps(paths)) {
    problems.error(
      'spec/path-conflict',
      stage.inputs[second]!.from.at,
      `two inputs of ${what} overlap: ${paths[first]!} and ${paths[second]!}`,
      'give each its own `guest` path',
    );
  }
  return paths;
}

/** A path that cannot be used is reported, and stays in its place for what else is checked. */
function guestPathOr(fallback: string, path: Located<string> | null, what: string, problems: Problems): string {
  return path === null ? fallback : (compileGuestPath(path, what, problems) ?? path.value);
}

function compileCwd(cwd: Located<string>, what: string, problems: Problems): string {
  if (cwd.value.startsWith('/')) return cwd.value;
  problems.error(
    'spec/bad-path',
    cwd.at,
    `\`cwd\` of ${what} is ${quote(cwd.value)}, which is not absolute`,
    'write it from the root, such as /workspace',
  );
  return cwd.value;
}

function checkSize(plan: Plan, at: Position, problems: Problems): void {
  const outputs = plan.stages.reduce((sum, stage) => sum + stage.outputs.length, 0);
  if (outputs > PLAN_LIMITS.outputs)
    problems.error(
      'spec/too-large',
      at,
      `the spec has ${outputs} named outputs; a run carries at most ${PLAN_LIMITS.outputs}`,
      'name folders instead of single files',
    );
  const held = machineBytes(machinePlanOf(plan));
  if (held > PLAN_LIMITS.machineBytes)
    problems.error(
      'spec/too-large',
      at,
      `the names and edges of the stages have ${held} bytes; a workflow holds at most ${PLAN_LIMITS.machineBytes}`,
      'shorten names, or put a stage between many that wait for many',
    );
  const bytes = planBytes(plan);
  if (bytes > PLAN_LIMITS.planBytes)
    problems.error(
      'spec/too-large',
      at,
      `the plan has ${bytes} bytes; a run carries at most ${PLAN_LIMITS.planBytes}`,
      'keep long texts and data in files that are mounted',
    );
}
