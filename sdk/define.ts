import type { Diagnostic } from '../domain/errors/diagnostic.ts';
import type { Plan, PlanKind } from '../domain/plan/plan.ts';
import { compileText } from '../domain/spec/load.ts';
import {
  type Box,
  type FanOut,
  type Param,
  type SandboxOptions,
  sandboxSpec,
  type SpecObject,
  type Step,
} from './definition.ts';

interface Common {
  readonly name: string;
  readonly params?: Readonly<Record<string, Param>>;
  readonly sandbox?: SandboxOptions;
  /** Most stages that run at the same time; 4 where nothing is said. */
  readonly maxParallel?: number;
}

export interface WorkflowOptions extends Common {
  readonly steps: readonly Step[];
  /** Whose output is the run's result; needed when more than one step has nothing after it. */
  readonly output?: Step;
}

export interface PipelineOptions extends Common {
  /** In order; each finds the output of the one before as `/workspace/input.json`. */
  readonly stages: readonly (Box | FanOut)[];
  /** Whose output is the run's result; without it, what a stage after the last would find: after a fan-out, the merge of its boxes. */
  readonly output?: Box;
}

/** A workflow or pipeline as its author wrote it, not checked yet. */
export interface Definition {
  readonly name: string;
  /** The spec as text, in JSON: what `voidbox run` and `voidboxRun` take. Diagnostics of `compile` point into it. */
  readonly source: string;
  /**
   * Checks it and makes the plan, with the compiler that YAML goes through.
   * @param options.baseDir  absolute folder that relative host paths of mounts start from; without it they are mistakes
   * @returns `plan` is null when a diagnostic is an error
   */
  compile(options?: { readonly baseDir?: string; readonly params?: Readonly<Record<string, string>> }): {
    readonly plan: Plan | null;
    readonly diagnostics: readonly Diagnostic[];
  };
}

/**
 * Steps that share one VM.
 *
 * @example
 * ```ts
 * import { defineWorkflow, param, step } from 'voidbox';
 *
 * const rows = step('rows', ['sh', '-c', `seq ${param('count')}`]);
 * const sum = step('sum', ['awk', '{ total += $1 } END { print total }'], { stdinFrom: rows });
 * const workflow = defineWorkflow({ name: 'sum', params: { count: 100 }, steps: [rows, sum] });
 *
 * const { plan, diagnostics } = workflow.compile();
 * console.log(plan?.output, diagnostics); // { kind: 'stage', stage: 'sum' } []
 * ```
 */
export function defineWorkflow(options: WorkflowOptions): Definition {
  return definition('workflow', options, {
    output_step: options.output?.name,
    steps: options.steps.map(({ spec }) => spec),
  });
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
export function definePipeline(options: PipelineOptions): Definition {
  const stages = options.stages.map((stage) =>
    stage.kind === 'box'
      ? { type: 'box', name: stage.name }
      : { type: 'fan_out', name: stage.name, boxes: stage.boxes.map(({ name }) => name) },
  );
  const boxes = options.stages.flatMap((stage) => (stage.kind === 'box' ? [stage] : stage.boxes));
  // A box that stands in two places is one box; that it may not is the compiler's to say.
  const specs = [...new Set(boxes)].map(({ spec }) => spec);
  return definition('pipeline', options, { output_box: options.output?.name, boxes: specs, stages });
}

function definition(kind: PlanKind, { name, params, sandbox, maxParallel }: Common, section: SpecObject): Definition {
  const source = `${JSON.stringify({ api_version: 'v1', kind, name, params, sandbox: sandboxSpec(sandbox), max_parallel: maxParallel, [kind]: section }, null, 2)}\n`;
  return {
    name,
    source,
    compile: ({ baseDir, params: given } = {}) =>
      compileText(source, `${name}.json`, { baseDir: baseDir ?? null, params: given ?? {} }),
  };
}
