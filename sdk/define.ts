import { createRequire } from 'node:module';
import type { Diagnostic } from '../domain/errors/diagnostic.ts';
import type { Plan, PlanKind } from '../domain/plan/plan.ts';
import { checkExpressions } from '../domain/language/expression/check.ts';
import { type CheckSchema, type SchemaEngine, findSchemaProblem } from '../domain/language/schema/output-schema.ts';
import { compileText } from '../domain/language/load.ts';
import { type Budget, writeBudget, type Llm, writeLlm } from './stages/agent-settings.ts';
import { writeLoop } from './stages/box-groups.ts';
import { writeDefaults, type StageDefaults } from './stages/common-options.ts';
import { type SandboxOptions, writeSandbox } from './stages/sandbox.ts';
import type { Approval, Box, FanOut, Loop, Outputs, Part, SpecObject, Step, Wait } from './stages/stage.ts';
import type { ParamValue } from './stages/values.ts';
import { listSpecFolders } from '../files/find-repository.ts';
import { listFiles } from './list-files.ts';
import { COMPILE_OPTIONS, PIPELINE_OPTIONS, RUN_OPTIONS, WORKFLOW_OPTIONS } from './known-options.ts';
import { checkList, checkOptions, durationOf, keepExact, nameOf, namesOf, secondsOf } from './options.ts';
import { reportPlace } from './places.ts';
import { readStepMachine } from './read-skill.ts';
import { type ReceiverOptions, writeReceivers } from './notify.ts';
import { type TriggerOptions, writeTriggers } from './triggers.ts';
import { createReadSpec } from './read-spec.ts';
import type { NoParams, Params, RunParams } from './results.ts';
import { runDefinition, type RunOptions, type RunResult } from './run.ts';

interface Common<P extends Params> {
  readonly name: string;
  readonly params?: P;
  readonly sandbox?: SandboxOptions;
  /** The model of agents that do not set their own. */
  readonly llm?: Llm;
  /** All secrets that stages may name, so that a reader sees them in one place. */
  readonly secrets?: readonly string[];
  /** The highest number of stages that run at the same time. Default: 4. */
  readonly maxParallel?: number;
  /** Defaults of each command. */
  readonly defaults?: StageDefaults;
  /** Time limit of the whole run, without the time in which it only waits. Default: no limit. */
  readonly timeoutMs?: number;
  /** Time limit of all stages with `finally` together. Default: 5 minutes. */
  readonly graceMs?: number;
  /** Budget of all agents of the run together. */
  readonly budget?: Budget;
  /** Events that start runs of a deployment. `voidbox run` ignores them, and so does a definition that uses this one. */
  readonly on?: readonly TriggerOptions[];
  /** Receivers of messages about runs of a deployment. `voidbox run` ignores them. */
  readonly notify?: readonly ReceiverOptions[];
  /** A run of a deployment that has not ended this long after its start is late. Default: no run is late. */
  readonly lateAfterMs?: number;
  /** A question that is open this long is reported as `waiting_long`. Default: 1 hour. */
  readonly waitingAfterMs?: number;
}

export interface WorkflowOptions<P extends Params = Params, R = unknown> extends Common<P> {
  readonly steps: readonly (Step | Approval | Wait | Part)[];
  /** The step whose output is the run's result. Required if more than one step has no step after it. */
  readonly output?: Step<Outputs, R> | Approval | Part;
  /**
   * `each-step`: after each step the disk of the shared VM is saved, and a lost VM repeats only later steps. Default:
   * `off`.
   */
  readonly checkpoint?: 'each-step' | 'off';
}

export interface PipelineOptions<P extends Params = Params, R = unknown> extends Common<P> {
  /** In order; each finds the output of the one before as `/workspace/input.json`. */
  readonly stages: readonly (Box | Approval | Wait | Part | FanOut | Loop)[];
  /** Boxes with `onFailure` or `finally`, which have no place in the order. */
  readonly aside?: readonly (Box | Approval | Wait | Part)[];
  /**
   * The box whose output is the run's result. Default: the output of the last stage; after a fan-out, the merge of its
   * boxes.
   */
  readonly output?: Box<Outputs, R> | Approval | Part;
}

/** A workflow or pipeline as its author wrote it, not checked yet. */
export interface Definition<P extends Params = Params, R = unknown> {
  readonly name: string;
  /** The spec as text, in JSON: what `voidbox run` and `voidboxRun` take. Diagnostics of `compile` point into it. */
  readonly source: string;
  /**
   * Checks it and makes the plan, with the same compiler as for YAML.
   * @param options.baseDir  absolute folder that relative host paths of mounts, the files of parts and `files` of
   * `forEach` start from; without it they are mistakes
   * @param options.params  as a run gives them, or as they are meant: numbers, booleans, lists
   * @returns `plan` is null when a diagnostic is an error
   */
  compile(options?: { readonly baseDir?: string; readonly params?: Readonly<Record<string, ParamValue>> }): {
    readonly plan: Plan | null;
    readonly diagnostics: readonly Diagnostic[];
  };
  /**
   * Runs it to its end, as `voidbox run` does: on the server that TEMPORAL_ADDRESS names, else on the embedded stack of
   * this machine, which it starts if necessary. The run continues when this program ends.
   * @throws RunError when the definition has mistakes, the run cannot start, fails or is cancelled
   */
  run(...options: RunArguments<P>): Promise<RunResult<R>>;
}

/** Options of `run`; `params` are required if a parameter has no default. */
export type RunArguments<P extends Params> =
  Record<never, never> extends RunParams<P>
    ? [options?: RunOptions & { readonly params?: RunParams<P> }]
    : [options: RunOptions & { readonly params: RunParams<P> }];

/**
 * Steps that share one VM.
 *
 * @example
 * ```ts
 * import { defineWorkflow, param, step } from 'voidbox';
 *
 * const rows = step('rows', ['seq', param('count')]);
 * const sum = step('sum', ['awk', '{ total += $1 } END { print total }'], { stdinFrom: rows });
 * const workflow = defineWorkflow({ name: 'sum', params: { count: 100 }, steps: [rows, sum] });
 *
 * const { plan, diagnostics } = workflow.compile();
 * console.log(plan?.output, diagnostics); // { kind: 'stage', stage: 'sum' } []
 * ```
 */
export function defineWorkflow<const P extends Params = NoParams, R = unknown>(
  options: WorkflowOptions<P, R>,
): Definition<P, R> {
  checkOptions('options of `defineWorkflow`', options, WORKFLOW_OPTIONS);
  const { steps, output, checkpoint } = options;
  checkList('`steps` of `defineWorkflow`', steps);
  for (const each of steps) nameOf('a step of `defineWorkflow`', each);
  const specs = steps.map(({ spec }) => spec);
  const made = definition<P, R>(
    'workflow',
    options,
    { output_step: outputName(output), checkpoint, steps: specs },
    specs,
  );
  reportPlace(made, defineWorkflow, stagesIn(made));
  return made;
}

/**
 * Boxes, each in a VM of its own, stage after stage.
 *
 * @example
 * ```ts
 * import { box, definePipeline, fanOut } from 'voidbox';
 *
 * const split = box('split', ['sh', '-c', 'mkdir parts; seq 9 > parts/a; seq 5 > parts/b'], { outputs: { parts: '/workspace/parts' } });
 * const count = (part: string) => box(`count-${part}`, ['sh', '-c', `wc -l < /workspace/in/${part}`], { inputs: [{ from: split.output('parts'), guest: '/workspace/in' }] });
 * const pipeline = definePipeline({
 *   name: 'count',
 *   stages: [split, fanOut([count('a'), count('b')]), box('report', ['cat', '/workspace/input.json'])],
 * });
 *
 * console.log(pipeline.compile().plan?.stages.length); // 4
 * ```
 */
export function definePipeline<const P extends Params = NoParams, R = unknown>(
  options: PipelineOptions<P, R>,
): Definition<P, R> {
  checkOptions('options of `definePipeline`', options, PIPELINE_OPTIONS);
  checkList('`stages` of `definePipeline`', options.stages);
  for (const each of options.stages)
    if (each?.kind !== 'fan-out' && each?.kind !== 'loop') nameOf('a stage of `definePipeline`', each);
  namesOf('`aside` of `definePipeline`', options.aside);
  const stages = options.stages.map((stage) =>
    stage.kind === 'fan-out'
      ? { type: 'fan_out', name: stage.name, boxes: stage.boxes.map(({ name }) => name) }
      : stage.kind === 'loop'
        ? writeLoop(stage)
        : { type: 'box', name: stage.name },
  );
  const specs = boxSpecs(options);
  const section = { output_box: outputName(options.output), boxes: specs, stages };
  const made = definition<P, R>('pipeline', options, section, specs);
  reportPlace(made, definePipeline, stagesIn(made));
  return made;
}

function outputName(stage: { readonly name: string } | undefined): string | undefined {
  return stage === undefined ? undefined : nameOf('`output`', stage);
}

/** Boxes in the order of the spec. A box in two places is returned once; the compiler reports it as a mistake. */
export function boxSpecs({ stages, aside = [] }: Pick<PipelineOptions, 'stages' | 'aside'>): readonly SpecObject[] {
  const inOrder = stages.flatMap((stage) =>
    stage.kind === 'fan-out' || stage.kind === 'loop' ? stage.boxes : [stage],
  );
  return [...new Set([...inOrder, ...aside])].map(({ spec }) => spec);
}

/** The keys that only a whole spec has: a definition that uses this one ignores them. */
function writeEvents(
  { on, notify, lateAfterMs, waitingAfterMs }: Pick<Common<Params>, 'on' | 'notify' | 'lateAfterMs' | 'waitingAfterMs'>,
  of: string,
): SpecObject {
  return {
    on: writeTriggers(on, of),
    notify: writeReceivers(notify, of),
    late_after: durationOf(`\`lateAfterMs\` ${of}`, lateAfterMs),
    waiting_after: durationOf(`\`waitingAfterMs\` ${of}`, waitingAfterMs),
  };
}

function definition<P extends Params, R>(
  kind: PlanKind,
  options: Common<P>,
  section: SpecObject,
  stages: readonly SpecObject[],
): Definition<P, R> {
  const { name, params, sandbox, llm, secrets, maxParallel, defaults, timeoutMs, graceMs, budget } = options;
  const of = `of ${kind} "${name}"`;
  const own = {
    params,
    sandbox: writeSandbox(sandbox),
    llm: writeLlm(llm, of),
    secrets,
    max_parallel: maxParallel,
    defaults: writeDefaults(defaults, of),
    timeout_secs: secondsOf(timeoutMs),
    grace_secs: secondsOf(graceMs),
    budget: writeBudget(budget, of),
  };
  const body = { ...own, [kind]: section };
  const { definitions, named } = partsOf(body);
  const parts =
    definitions.length === 0
      ? undefined
      : Object.fromEntries(definitions.map((each) => [named(each) as string, written.get(each)!.body]));
  const spec = { api_version: 'v1', kind, name, ...own, ...writeEvents(options, of), parts, [kind]: section };
  const source = `${JSON.stringify(spec, (key, value: unknown) => named(withoutNull(keepExact(key, value))), 2)}\n`;
  const made: Definition<P, R> = {
    name,
    source,
    compile(wanted = {}) {
      checkOptions('options of `compile`', wanted, COMPILE_OPTIONS);
      const { baseDir, params: given } = wanted;
      const options = {
        baseDir: baseDir ?? null,
        params: textsOf(given ?? {}),
        checkExpression: checkExpressions,
        checkSchema,
        readStepMachine,
        readSpec:
          baseDir === undefined ? () => ({ problem: 'there is no folder' }) : createReadSpec(listSpecFolders(baseDir)),
        listFiles,
      };
      const { plan, diagnostics } = compileText(source, `${name}.json`, options);
      return { plan, diagnostics };
    },
    async run(...[wanted = {}]) {
      checkOptions('options of `run`', wanted, RUN_OPTIONS);
      const { params: given = {}, ...options } = wanted;
      return (await runDefinition(
        made,
        textsOf(given as Readonly<Record<string, ParamValue>>),
        options,
      )) as RunResult<R>;
    },
  };
  written.set(made, { body, stages, definitions });
  return made;
}

interface WrittenSpec {
  /** Everything but its name, in the form of a part of another definition. */
  readonly body: SpecObject;
  readonly stages: readonly SpecObject[];
  /** All definitions that it uses, also indirectly. */
  readonly definitions: readonly object[];
}

const written = new WeakMap<object, WrittenSpec>();

/** Lets the other definition be a part wherever this one may be a part. */
export function registerReplacement(other: object, made: object): void {
  written.set(other, written.get(made)!);
}

/** Steps or boxes in the order of the source, in which parts come first. */
export function stagesIn(made: object): readonly SpecObject[] {
  return [...written.get(made)!.definitions, made].flatMap((each) => written.get(each)!.stages);
}

/**
 * Returns all definitions that a spec uses, also indirectly.
 * @returns `named` replaces a definition by its name among them
 */
function partsOf(root: SpecObject): {
  readonly definitions: readonly object[];
  readonly named: (value: unknown) => unknown;
} {
  const names = new Map<object, string>();
  const queue = [root];
  const named = (value: unknown): unknown => {
    const found = typeof value === 'object' && value !== null ? written.get(value) : undefined;
    if (found === undefined) return value;
    const made = value as { readonly name: string };
    if (!names.has(made)) {
      const taken = new Set(names.values());
      let name = made.name;
      for (let count = 2; taken.has(name); count += 1) name = `${made.name}-${count}`;
      names.set(made, name);
      queue.push(found.body);
    }
    return names.get(made);
  };
  // A loop over a list that grows visits the new entries too.
  for (const body of queue) JSON.stringify(body, (_, value: unknown) => named(value));
  return { definitions: [...names.keys()], named };
}

/** Its library is loaded only if a definition has a schema. */
const checkSchema: CheckSchema = (schema) => {
  const load = createRequire(import.meta.url);
  const { Ajv } = load('ajv') as Pick<SchemaEngine, 'Ajv'>;
  const { Ajv2020 } = load('ajv/dist/2020.js') as Pick<SchemaEngine, 'Ajv2020'>;
  return findSchemaProblem({ Ajv, Ajv2020 }, schema);
};

/** Converts values to the form of `--param`. */
function textsOf(params: Readonly<Record<string, ParamValue>>): Readonly<Record<string, string>> {
  const texts = Object.entries(params).map(([name, value]) => [
    name,
    typeof value === 'object'
      ? JSON.stringify(value, (_, inner: unknown) => keepExact(name, inner))
      : String(keepExact(name, value)),
  ]);
  return Object.fromEntries(texts) as Readonly<Record<string, string>>;
}

/**
 * JSON has null for these numbers, and a spec takes null for an absent key: the default would hide a wrong calculation.
 */
function withoutNull(value: unknown): unknown {
  return typeof value === 'number' && !Number.isFinite(value) ? String(value) : value;
}
