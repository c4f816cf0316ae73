import { SANDBOX } from './sandbox-table.ts';
import { STAGE } from './stage-table.ts';
import type { MappingTable } from './table.ts';
import { PLAN_KINDS } from '../../plan/plan.ts';
import { DEFAULT_MAX_PARALLEL, RANGES } from './values.ts';

const PARAMETER = {
  keys: {
    default: {
      as: 'default',
      type: { is: 'text', holds: 'text', lenient: true },
      called: 'the default',
      otherwise: 'each run has to give it',
      doc: 'Numbers and booleans are taken as they are written.',
      example: 100,
    },
    description: {
      as: 'description',
      type: { is: 'text', holds: 'text' },
      called: 'the description',
      doc: 'For those who read the spec.',
      example: 'how many rows',
    },
  },
} as const satisfies MappingTable;

export const WORKFLOW = {
  keys: {
    steps: {
      as: 'stages',
      type: { is: 'stages', noun: 'step', table: STAGE },
      required: true,
      doc: 'What runs. See [A stage](#a-stage-a-step-or-a-box).',
      example: [{ name: 'hello', run: { program: 'echo', args: ['hello'] } }],
    },
    output_step: {
      as: 'output',
      type: { is: 'text', holds: "a step's name" },
      of: 'nothing',
      otherwise: 'the only step with nothing after it',
      doc: "Whose output is the run's result. Needed when several steps have nothing after them.",
      example: 'report',
    },
  },
} as const satisfies MappingTable;

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
} as const satisfies MappingTable;

const PIPELINE_FAN_OUT = {
  keys: {
    name: { as: 'name', type: { is: 'name' }, doc: 'For those who read the spec.', example: 'tables' },
    boxes: {
      as: 'boxes',
      type: {
        is: 'list',
        of: { is: 'text', holds: "a box's name" },
        item: 'a box',
        items: 'names of boxes',
        filled: { remedy: 'add at least one' },
      },
      required: true,
      doc: 'Boxes that run side by side.',
      example: ['left', 'right'],
    },
  },
} as const satisfies MappingTable;

export const PIPELINE = {
  keys: {
    boxes: {
      as: 'stages',
      type: { is: 'stages', noun: 'box', table: STAGE },
      required: true,
      doc: 'Each has a VM of its own. See [A stage](#a-stage-a-step-or-a-box).',
      example: [{ name: 'hello', run: { program: 'echo', args: ['hello'] } }],
    },
    stages: {
      as: 'pipelineStages',
      type: {
        is: 'list',
        of: {
          is: 'variants',
          by: { key: 'type', doc: 'One box, or several side by side.', form: 'type: box` or `type: fan_out' },
          tables: { box: PIPELINE_BOX, fan_out: PIPELINE_FAN_OUT },
          form: (text) => `{ type: box, name: ${text} }`,
        },
        item: 'stage #',
        filled: { remedy: 'add at least one, or take `stages` out: then every box runs in order', of: 'nothing' },
      },
      otherwise: 'every box, one after the other',
      doc: 'The order in which boxes run.',
      example: [
        { type: 'box', name: 'fetch' },
        { type: 'fan_out', boxes: ['left', 'right'] },
      ],
    },
    output_box: {
      as: 'output',
      type: { is: 'text', holds: "a box's name" },
      of: 'nothing',
      otherwise: 'what a stage after the last would find',
      doc: "Whose output is the run's result. Without it: the output of the last stage's box; after a `fan_out`, the merge of its boxes.",
      example: 'report',
    },
  },
} as const satisfies MappingTable;

const COMMANDS_ONLY = 'write the same as commands in a workflow or pipeline';

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
        unsupported: { words: ['agent', 'sandbox', 'skill', 'chain'], remedy: COMMANDS_ONLY },
      },
      required: true,
      form: 'kind: workflow` (steps share a VM) or `kind: pipeline',
      doc: 'Steps that share a VM, or boxes with a VM each.',
      example: 'workflow',
    },
    name: {
      as: 'name',
      type: { is: 'name' },
      required: true,
      doc: 'What runs of the spec are listed under.',
      example: 'hello',
    },
    params: {
      as: 'params',
      type: { is: 'parameters', table: PARAMETER },
      doc: 'Values that each run may give. See [Parameters](#parameters).',
      example: { region: 'north', rows: { default: 100 } },
    },
    sandbox: {
      as: 'sandbox',
      type: { is: 'mapping', table: SANDBOX },
      otherwise: 'the defaults of its keys',
      doc: 'What VMs get. See [Sandbox](#sandbox).',
      example: { memory_mb: 1024 },
    },
    max_parallel: {
      as: 'maxParallel',
      type: { is: 'number', range: RANGES.maxParallel },
      default: DEFAULT_MAX_PARALLEL,
      doc: 'Most stages that run at the same time; free memory of the host may lower it.',
      example: 8,
    },
    workflow: {
      as: 'workflow',
      type: { is: 'section', table: WORKFLOW },
      required: true,
      kinds: ['workflow'],
      doc: 'What a run does. See [`workflow`](#workflow).',
      example: { steps: [{ name: 'hello', run: { program: 'echo', args: ['hello'] } }] },
    },
    pipeline: {
      as: 'pipeline',
      type: { is: 'section', table: PIPELINE },
      required: true,
      kinds: ['pipeline'],
      doc: 'What a run does. See [`pipeline`](#pipeline).',
      example: { boxes: [{ name: 'hello', run: { program: 'echo', args: ['hello'] } }] },
    },
  },
  unsupported: {
    observe: { severity: 'warning', message: '`observe` has no effect yet', remedy: 'take it out' },
    llm: { severity: 'warning', message: '`llm` has no effect yet: stages are commands', remedy: 'take it out' },
    agent: {
      severity: 'error',
      message: 'the section `agent` is not supported yet',
      remedy: 'take it out; supported sections: workflow, pipeline',
    },
  },
} as const satisfies MappingTable;
