import type { Diagnostic } from '../errors/diagnostic.ts';
import { COMMAND_DEFAULTS, RETRY_DEFAULTS, STAGE_DEFAULTS } from '../plan/defaults.ts';
import {
  type EnvPlan,
  type Plan,
  PLAN_LIMITS,
  PLAN_VERSION,
  type ScopePlan,
  type StageInputPlan,
  type StagePlan,
} from '../plan/plan.ts';
import { machineBytes, machinePlanOf } from '../pipeline/machine-plan.ts';
import { planBytes } from '../plan/wire.ts';
import { edgesOnSuccess, hostVariablesOf } from '../plan/work.ts';
import { compileGuestPath, compileSandbox } from './compile-sandbox.ts';
import { GUEST_PATH_DEFAULTS } from './grammar/stage-table.ts';
import { DEFAULT_MAX_PARALLEL } from './grammar/values.ts';
import { cycles, describeCycle } from './graph.ts';
import { type Linked, type Links, linkPipeline, linkWorkflow } from './links.ts';
import { overlaps } from './paths.ts';
import { type Filler, createFiller, resolveParams } from './placeholders.ts';
import { Problems } from './problems.ts';
import type { EnvSpec, Spec, StageSpec } from './spec.ts';
import { type Located, type Position, quote } from './tree.ts';
import { warnOfUnorderedWriters } from './unordered-writers.ts';

/** The scope that steps of a workflow share. No step can have this name: names begin with a letter or digit. */
export const SHARED_SCOPE = '_shared';

export interface CompileOptions {
  /** Absolute folder that relative host paths of mounts start from; null when the spec comes without one. */
  readonly baseDir: string | null;
  /** Values for the spec's parameters. */
  readonly params?: Readonly<Record<string, string>>;
}

/**
 * Turns a Spec into a Plan: names resolved, defaults filled, everything checked that needs no host.
 * @returns `plan` is null when there is an error; warnings alone leave it
 */
export function compilePlan(
  spec: Spec,
  options: CompileOptions,
): { readonly plan: Plan | null; readonly diagnostics: readonly Diagnostic[] } {
  const problems = new Problems(spec.file);
  const plan = compile(spec, options, problems);
  const diagnostics = problems.list();
  return { plan: diagnostics.some(({ severity }) => severity === 'error') ? null : plan, diagnostics };
}

function compile(spec: Spec, options: CompileOptions, problems: Problems): Plan | null {
  const fill = createFiller(resolveParams(spec.params, options.params ?? {}, spec.name.at, problems), problems);
  const linked = spec.kind === 'workflow' ? linkWorkflow(spec, problems) : linkPipeline(spec, problems);
  reportCycles(spec, linked, problems);
  const scopes = compileScopes(spec, linked, options.baseDir, problems);
  const stages = spec.stages.flatMap(
    (stage, index) => compileStage(spec, stage, linked.links[index]!, fill, problems) ?? [],
  );
  if (linked.output === null) return null;
  const plan: Plan = {
    version: PLAN_VERSION,
    kind: spec.kind,
    name: spec.name.value,
    stages,
    scopes,
    output: linked.output,
    maxParallel: spec.maxParallel ?? DEFAULT_MAX_PARALLEL,
    hostVariables: hostVariablesOf(stages),
  };
  checkSize(plan, spec.sectionAt, problems);
  const places = new Map(spec.stages.map((stage) => [stage.name.value, stage.name.at]));
  warnOfUnorderedWriters(plan, (stage) => places.get(stage) ?? spec.sectionAt, problems);
  return plan;
}

function reportCycles(spec: Spec, linked: Linked, problems: Problems): void {
  const dependencies = linked.links.map((links) => links?.dependsOn ?? []);
  const name = (index: number): string => quote(spec.stages[index]!.name.value);
  for (const group of cycles(dependencies)) {
    const shown = describeCycle(group, dependencies, name);
    const message =
      group.length === 1 ? `step ${name(group[0]!)} waits for itself` : `steps wait for each other: ${shown}`;
    problems.error(
      'spec/cycle',
      spec.stages[group[0]!]!.name.at,
      message,
      'take one of the dependencies out (`depends_on`, `stdin_from` and `inputs` are dependencies)',
    );
  }
}

/** A box is its own scope; steps share one unless they have a `sandbox` of their own. */
function compileScopes(spec: Spec, linked: Linked, baseDir: string | null, problems: Problems): readonly ScopePlan[] {
  const running = spec.stages.filter((_, index) => linked.links[index] !== null);
  const scopes = new Map<string, { stages: string[]; sandbox: ScopePlan['sandbox'] }>();
  for (const stage of running) {
    const id = scopeOf(spec, stage);
    const scope = scopes.get(id);
    if (scope !== undefined) scope.stages.push(stage.name.value);
    else
      scopes.set(id, {
        stages: [stage.name.value],
        sandbox: compileSandbox(spec.sandbox, stage.sandbox, baseDir, problems),
      });
  }
  return [...scopes].map(([id, { stages, sandbox }]) => ({ id, stages, sandbox }));
}

function scopeOf(spec: Spec, stage: StageSpec): string {
  return spec.kind === 'pipeline' || stage.sandbox !== null ? stage.name.value : SHARED_SCOPE;
}

/** Null: the stage is no part of the plan, or could not be read. */
function compileStage(
  spec: Spec,
  stage: StageSpec,
  links: Links | null,
  fill: Filler,
  problems: Problems,
): StagePlan | null {
  const { run } = stage;
  const what = `${spec.kind === 'workflow' ? 'step' : 'box'} ${quote(stage.name.value)}`;
  const env = compileEnv([spec.sandbox?.env ?? [], stage.sandbox?.env ?? [], stage.env], fill);
  const outputFile =
    stage.outputFile === null ? null : compileGuestPath(stage.outputFile, `\`output_file\` of ${what}`, problems);
  const inputPaths = compileInputPaths(stage, what, problems);
  const outputs = stage.outputs.map(({ name, guestPath }) => ({
    name: name.value,
    guestPath: guestPathOr(GUEST_PATH_DEFAULTS.output, guestPath, `an output of ${what}`, problems),
  }));
  if (run === null) return null;
  const program = fill(run.program);
  const args = run.args.map((arg) => fill(arg));
  const cwd = run.cwd === null ? COMMAND_DEFAULTS.cwd : compileCwd(run.cwd, what, problems);
  if (links === null) return null;
  const idOf = (index: number): string => spec.stages[index]!.name.value;
  return {
    id: stage.name.value,
    scope: scopeOf(spec, stage),
    after: edgesOnSuccess(links.dependsOn.map(idOf)),
    work: {
      kind: 'command',
      program,
      args,
      cwd,
      env,
      stdin: links.stdin === null ? { kind: 'none' } : { kind: 'stage-output', stage: idOf(links.stdin) },
    },
    input: links.input,
    inputs: links.inputs.map(({ source, output, index }): StageInputPlan => ({
      fromStage: idOf(source),
      output,
      guestPath: inputPaths[index]!,
    })),
    outputs,
    outputFile,
    timeoutMs: stage.timeoutMs ?? STAGE_DEFAULTS.timeoutMs,
    retry: {
      maxAttempts: stage.retry?.maxAttempts ?? RETRY_DEFAULTS.maxAttempts,
      backoffMs: stage.retry?.backoffMs ?? RETRY_DEFAULTS.backoffMs,
    },
    maxOutputBytes: stage.maxOutputBytes ?? STAGE_DEFAULTS.maxOutputBytes,
  };
}

/** Later ones win, first places stay. */
function compileEnv(layers: readonly (readonly EnvSpec[])[], fill: Filler): readonly EnvPlan[] {
  const env = new Map<string, EnvPlan['value']>();
  for (const { name, value } of layers.flat()) {
    env.set(name, value.value === '' ? { kind: 'from-host', fromHost: name } : { kind: 'literal', text: fill(value) });
  }
  return [...env].map(([name, value]) => ({ name, value }));
}

function compileInputPaths(stage: StageSpec, what: string, problems: Problems): readonly string[] {
  const paths = stage.inputs.map(({ guestPath }) =>
    guestPathOr(GUEST_PATH_DEFAULTS.input, guestPath, `an input of ${what}`, problems),
  );
  for (const [first, second] of overlaps(paths)) {
    problems.error(
      'spec/path-conflict',
      stage.inputs[second]!.from.at,
      `two inputs of ${what} lie on or in each other: ${paths[first]!} and ${paths[second]!}`,
      'give each a `guest` path of its own',
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
