import { AGENT, BUDGET, LLM } from './agent-table.ts';
import { NOTIFY_KEYS } from './notify-table.ts';
import { PARAMETER } from './param-table.ts';
import { SANDBOX } from './sandbox-table.ts';
import { BESIDE_RUN, STAGE } from './stage-table.ts';
import { ON_KEY } from './trigger-table.ts';
import type { Key, Keys, MappingTable } from './table.ts';
import { GRACE_MS } from '../../plan/defaults.ts';
import { CHECKPOINTS, ON_LIMITS, PLAN_KINDS, type PlanKind } from '../../plan/plan.ts';
import { DEFAULT_MAX_PARALLEL, RANGES, SCALES, VARIABLE_LIMITS } from './values.ts';

/** Defaults for stages that run commands; a stage's own values override them. */
const DEFAULTS = {
  keys: {
    env: BESIDE_RUN.env,
    timeout_secs: BESIDE_RUN.timeout_secs,
    retry: BESIDE_RUN.retry,
    max_output_mb: BESIDE_RUN.max_output_mb,
  },
  misplaced: { 'each step or box': BESIDE_RUN },
} as const satisfies MappingTable;

/** Keys of the top level for all kinds. */
const OF_ALL_KINDS = {
  params: {
    as: 'params',
    mistaken: ['parameters', 'variables', 'vars', 'inputs'],
    type: { is: 'parameters', table: PARAMETER },
    doc: 'Values that a run can set. See [Parameters](#parameters).',
    example: { region: 'north', rows: { default: 100 } },
  },
  sandbox: {
    as: 'sandbox',
    type: { is: 'mapping', table: SANDBOX },
    otherwise: 'the defaults of its keys',
    doc: 'Resources, mounts and variables of VMs. See [Sandbox](#sandbox).',
    example: { memory_mb: 1024 },
  },
  secrets: {
    as: 'secrets',
    type: {
      is: 'list',
      of: { is: 'text', holds: "a variable's name", variable: true },
      item: 'a secret',
      items: 'variables',
      filled: { remedy: 'remove it: without it each stage may name any', of: 'nothing' },
      most: VARIABLE_LIMITS.count,
    },
    feeds: 'secrets',
    mistaken: ['secret', 'credentials'],
    otherwise: 'what the stages name',
    doc: 'The secrets that stages may name; a stage gets only its own. See [Secrets](#secrets).',
    example: ['API_TOKEN'],
  },
  llm: {
    as: 'llm',
    type: { is: 'mapping', table: LLM },
    otherwise: "the worker's choice",
    doc: 'The provider that answers agents. See [Agents](#agents).',
    example: { provider: 'claude' },
  },
  max_parallel: {
    as: 'maxParallel',
    mistaken: ['parallel', 'parallelism', 'concurrency', 'max_concurrency', 'max_parallelism'],
    type: { is: 'number', range: RANGES.maxParallel },
    default: DEFAULT_MAX_PARALLEL,
    doc: 'Stages that run at the same time; fewer if the host is short of memory.',
    example: 8,
  },
  defaults: {
    as: 'defaults',
    type: { is: 'mapping', table: DEFAULTS },
    mistaken: ['default', 'step_defaults', 'stage_defaults', 'box_defaults'],
    form: 'defaults: { timeout_secs: 600 }',
    doc: 'Defaults for stages with `run`. See [How a stage runs and fails](#how-a-stage-runs-and-fails).',
    example: { timeout_secs: 600, retry: { max_attempts: 2, initial_secs: 1 }, env: { LANG: 'C.UTF-8' } },
  },
  timeout_secs: {
    as: 'timeoutMs',
    type: { is: 'number', range: RANGES.runTimeoutSecs, scale: SCALES.msPerSecond },
    mistaken: ['timeout', 'run_timeout_secs', 'timeout_seconds', 'timeout_minutes', 'deadline', 'time_limit'],
    otherwise: 'no limit',
    doc: 'Time limit for the run, without pure waiting. See [The time of a run](#the-time-of-a-run).',
    example: 3600,
  },
  grace_secs: {
    as: 'graceMs',
    type: { is: 'number', range: RANGES.graceSecs, scale: SCALES.msPerSecond },
    mistaken: ['grace', 'grace_period', 'grace_period_secs', 'finally_timeout_secs', 'cleanup_timeout_secs'],
    default: GRACE_MS / SCALES.msPerSecond,
    doc: 'Time limit for all stages with `finally` together. See [Whatever happens](#whatever-happens).',
    example: 60,
  },
  budget: {
    as: 'budget',
    type: { is: 'mapping', table: BUDGET },
    mistaken: ['budgets', 'run_budget', 'total_budget'],
    form: 'budget: { max_tokens: 2000000 }',
    otherwise: 'no limit',
    doc: 'Limits of all agents of the run together. See [The budget of a run](agents.md#the-budget-of-a-run).',
    example: { max_turns: 200, max_tokens: 2_000_000 },
  },
} as const satisfies Keys;

export const WORKFLOW = {
  keys: {
    steps: {
      as: 'stages',
      mistaken: ['jobs', 'tasks', 'boxes', 'stages'],
      type: { is: 'stages', noun: 'step', table: STAGE },
      required: true,
      doc: 'The steps. See [A stage](#a-stage-a-step-or-a-box).',
      example: [{ name: 'hello', run: { program: 'echo', args: ['hello'] } }],
    },
    output_step: {
      as: 'output',
      feeds: 'result',
      mistaken: ['output', 'result', 'output_box'],
      type: { is: 'text', holds: "a step's name" },
      of: 'nothing',
      otherwise: 'the only step on which no other depends',
      doc: "The step whose output is the run's result. Required if several steps have no dependents.",
      example: 'report',
    },
    checkpoint: {
      as: 'checkpoint',
      type: { is: 'word', words: CHECKPOINTS },
      mistaken: ['checkpoints'],
      default: 'off',
      doc: '`each-step`: a lost VM repeats only later steps. See [Checkpoints of steps](snapshots.md#checkpoints-of-steps).',
      example: 'each-step',
    },
  },
  misplaced: { 'the top level of the spec': OF_ALL_KINDS },
} as const satisfies MappingTable;

const { name: _name, depends_on: _dependsOn, mode: _mode, ...OF_BOXES } = STAGE.keys;

/** An entry of `stages` sets only the order; the boxes have the other keys. */
const ORDER_ONLY: Pick<MappingTable, 'misplaced' | 'unsupported'> = {
  misplaced: { 'each box': OF_BOXES },
  unsupported: {
    depends_on: {
      severity: 'error',
      code: 'spec/wrong-key',
      message: 'a stage of `pipeline` has no `depends_on`: stages run in their order',
      remedy: 'put it after what it waits for, or write `kind: workflow`, whose steps depend on each other',
    },
  },
};

const PIPELINE_BOX = {
  keys: {
    name: {
      as: 'box',
      type: { is: 'text', holds: "a box's name" },
      required: true,
      doc: 'The box that runs.',
      example: 'fetch',
    },
  },
  ...ORDER_ONLY,
} as const satisfies MappingTable;

const BOX_NAMES = {
  is: 'list',
  of: { is: 'text', holds: "a box's name" },
  item: 'a box',
  items: 'names',
  filled: { remedy: 'add at least one' },
} as const;

const PIPELINE_FAN_OUT = {
  keys: {
    name: { as: 'name', type: { is: 'name' }, doc: 'For readers of the spec; no effect.', example: 'tables' },
    boxes: {
      as: 'boxes',
      type: BOX_NAMES,
      required: true,
      doc: 'Boxes that run in parallel.',
      example: ['left', 'right'],
    },
  },
  ...ORDER_ONLY,
} as const satisfies MappingTable;

const PIPELINE_LOOP = {
  keys: {
    name: {
      as: 'name',
      type: { is: 'name' },
      required: true,
      doc: 'Names the loop, its output and its state.',
      example: 'refine',
    },
    boxes: {
      as: 'boxes',
      type: BOX_NAMES,
      required: true,
      doc: 'The boxes of a visit, in this order.',
      example: ['write', 'judge'],
    },
    until: {
      as: 'until',
      mistaken: ['while', 'when', 'condition', 'break_if'],
      type: {
        is: 'text',
        holds: 'expression',
        lenient: true,
        filled: 'write a condition, such as `stages.judge.json.score >= 8`',
      },
      required: true,
      form: 'until: EXPRESSION',
      doc: 'The loop ends once this holds after a visit. See [Conditions](#conditions).',
      example: 'stages.judge.json.score >= 8',
    },
    max_visits: {
      as: 'maxVisits',
      mistaken: ['max_iterations', 'max_attempts', 'times', 'limit'],
      type: { is: 'number', range: RANGES.visits },
      required: true,
      doc: 'Most visits.',
      example: 5,
    },
    on_limit: {
      as: 'onLimit',
      type: { is: 'word', words: ON_LIMITS },
      default: 'fail',
      doc: 'After the last visit: `fail` as `loop/limit`, or `pass` with its output.',
      example: 'pass',
    },
  },
  ...ORDER_ONLY,
} as const satisfies MappingTable;

export const PIPELINE = {
  keys: {
    boxes: {
      as: 'stages',
      mistaken: ['jobs', 'tasks', 'steps'],
      type: { is: 'stages', noun: 'box', table: STAGE },
      required: true,
      doc: 'The boxes, each with its own VM. See [A stage](#a-stage-a-step-or-a-box).',
      example: [{ name: 'hello', run: { program: 'echo', args: ['hello'] } }],
    },
    stages: {
      as: 'pipelineStages',
      type: {
        is: 'list',
        of: {
          is: 'variants',
          by: {
            key: 'type',
            doc: 'One box, parallel boxes, or repeated boxes.',
            form: 'type: box`, `type: fan_out` or `type: loop',
          },
          tables: { box: PIPELINE_BOX, fan_out: PIPELINE_FAN_OUT, loop: PIPELINE_LOOP },
          form: (text) => `{ type: box, name: ${text} }`,
        },
        item: 'stage #',
        filled: { remedy: 'add at least one, or remove `stages`: then every box runs in order', of: 'nothing' },
      },
      otherwise: 'every box, one after the other',
      feeds: 'order',
      mistaken: ['order', 'sequence'],
      form: 'stages: [{ type: box, name: BOX }, …]',
      doc: 'The order in which boxes run.',
      example: [
        { type: 'box', name: 'fetch' },
        { type: 'fan_out', boxes: ['left', 'right'] },
        { type: 'loop', name: 'refine', boxes: ['report'], until: 'stages.report.json.ok', max_visits: 5 },
      ],
    },
    output_box: {
      as: 'output',
      mistaken: ['output', 'result', 'output_step'],
      type: { is: 'text', holds: "a box's name" },
      of: 'nothing',
      otherwise: 'the output of the last stage',
      doc: "The box whose output is the run's result.",
      example: 'report',
    },
  },
  misplaced: { 'the top level of the spec': OF_ALL_KINDS },
} as const satisfies MappingTable;

/** Kinds with a section of the same name. Every kind has the key `sandbox`. */
export const SECTION_KINDS = ['workflow', 'pipeline', 'agent'] as const satisfies readonly PlanKind[];

const { max_parallel, timeout_secs, grace_secs, budget, ...OF_PARTS } = OF_ALL_KINDS;

/** A part in the same file, with the keys that a file of its own would have. */
export const PART = {
  keys: {
    ...OF_PARTS,
    workflow: {
      as: 'workflow',
      type: { is: 'section', table: WORKFLOW },
      group: 'section',
      form: 'workflow: { steps: […] }` or `pipeline: { boxes: […] }',
      doc: 'Its steps. See [`workflow`](#workflow).',
      example: { steps: [{ name: 'lint', run: { program: 'lint' } }] },
    },
    pipeline: {
      as: 'pipeline',
      type: { is: 'section', table: PIPELINE },
      group: 'section',
      doc: 'Its boxes. See [`pipeline`](#pipeline).',
      example: { boxes: [{ name: 'lint', run: { program: 'lint' } }] },
    },
    agent: {
      as: 'agent',
      type: { is: 'section', table: AGENT },
      group: 'section',
      doc: 'Its agent. See [Agents](#agents).',
      example: { prompt: 'Review the code in /workspace.' },
    },
  },
  misplaced: {
    'the top level of the spec': {
      max_parallel,
      timeout_secs,
      grace_secs,
      budget,
      on: ON_KEY as Key,
      ...(NOTIFY_KEYS as Keys),
    },
    '`pipeline`': PIPELINE.keys,
    '`workflow`': WORKFLOW.keys,
  },
} as const satisfies MappingTable;

const COMMANDS_ONLY = 'write it as commands in a workflow or pipeline';

export const SPEC = {
  of: 'nothing',
  keys: {
    api_version: {
      as: 'apiVersion',
      type: { is: 'word', words: ['v1'], remedy: 'write `api_version: v1`, the only version there is' },
      default: 'v1',
      doc: 'The version of the grammar.',
      example: 'v1',
    },
    kind: {
      as: 'kind',
      type: {
        is: 'word',
        words: PLAN_KINDS,
        unsupported: { words: ['skill', 'chain'], remedy: COMMANDS_ONLY },
      },
      required: true,
      form: 'kind: workflow` (steps share a VM) or `kind: pipeline',
      doc: 'Steps that share a VM, boxes with a VM each, one agent, or a VM for a terminal.',
      example: 'workflow',
    },
    name: {
      as: 'name',
      type: { is: 'name' },
      required: true,
      doc: 'Shown in lists of runs.',
      example: 'hello',
    },
    ...OF_ALL_KINDS,
    on: ON_KEY,
    ...NOTIFY_KEYS,
    parts: {
      as: 'parts',
      type: { is: 'parts', table: PART },
      mistaken: ['sub_pipelines', 'subworkflows', 'templates'],
      doc: 'Parts that stages of this file use by name. See [Parts](#parts).',
      example: { checks: { workflow: { steps: [{ name: 'lint', run: { program: 'lint' } }] } } },
    },
    workflow: {
      as: 'workflow',
      type: { is: 'section', table: WORKFLOW },
      required: true,
      kinds: ['workflow'],
      doc: 'Its steps. See [`workflow`](#workflow).',
      example: { steps: [{ name: 'hello', run: { program: 'echo', args: ['hello'] } }] },
    },
    pipeline: {
      as: 'pipeline',
      type: { is: 'section', table: PIPELINE },
      required: true,
      kinds: ['pipeline'],
      doc: 'Its boxes. See [`pipeline`](#pipeline).',
      example: { boxes: [{ name: 'hello', run: { program: 'echo', args: ['hello'] } }] },
    },
    agent: {
      as: 'agent',
      type: { is: 'section', table: AGENT },
      required: true,
      kinds: ['agent'],
      doc: 'Its agent. See [Agents](#agents).',
      example: { prompt: 'Review the code in /workspace.' },
    },
  },
  misplaced: {
    // Only names are needed: the whole type of the table would be too long for a declaration.
    '`agent`': AGENT.keys as Keys,
    'each step or box': BESIDE_RUN as Keys,
    '`sandbox`': SANDBOX.keys as Keys,
    '`pipeline`': PIPELINE.keys as Keys,
    '`workflow`': WORKFLOW.keys as Keys,
  },
  unsupported: {
    observe: { severity: 'warning', message: '`observe` has no effect yet', remedy: 'remove it' },
  },
} as const satisfies MappingTable;
