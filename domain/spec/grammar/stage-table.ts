import { COMMAND_DEFAULTS, RETRY_DEFAULTS, STAGE_DEFAULTS } from '../../plan/defaults.ts';
import { SANDBOX } from './sandbox-table.ts';
import type { MappingTable } from './table.ts';
import { RANGES, SCALES } from './values.ts';

/** Where inputs are put and outputs are taken from when no `guest` is said. */
export const GUEST_PATH_DEFAULTS = { input: '/workspace/input', output: '/workspace/output' } as const;

const RUN = {
  form: (text) => `{ program: sh, args: [-c, ${JSON.stringify(text)}] }`,
  keys: {
    program: {
      as: 'program',
      type: { is: 'text', holds: 'text', filled: 'name a program of the guest, such as sh' },
      required: true,
      doc: 'A program of the guest, or a path of one.',
      example: 'sh',
    },
    args: {
      as: 'args',
      type: { is: 'list', of: { is: 'text', holds: 'text', lenient: true }, item: 'an argument', items: 'texts' },
      doc: 'Numbers and booleans are taken as they are written. No shell is between.',
      example: ['-c', 'ls | wc -l'],
    },
    stdin_from: {
      as: 'stdinFrom',
      type: { is: 'text', holds: "a stage's name" },
      doc: "That stage's output becomes standard input. In a pipeline, a box of an earlier stage.",
      example: 'fetch',
    },
    cwd: {
      as: 'cwd',
      type: { is: 'text', holds: 'absolute path', plain: true, absolute: true },
      default: COMMAND_DEFAULTS.cwd,
      doc: 'Where the command starts.',
      example: '/data',
    },
  },
} as const satisfies MappingTable;

const RETRY = {
  of: 'outer',
  keys: {
    max_attempts: {
      as: 'maxAttempts',
      type: { is: 'number', range: RANGES.attempts },
      default: RETRY_DEFAULTS.maxAttempts,
      doc: 'Attempts in all that a failed command gets. A lost VM is tried again up to 3 times by itself, counted apart.',
      example: 3,
    },
    backoff_secs: {
      as: 'backoffMs',
      type: { is: 'number', range: RANGES.backoffSecs, scale: SCALES.msPerSecond },
      default: RETRY_DEFAULTS.backoffMs / SCALES.msPerSecond,
      doc: 'Between a failed attempt and the next.',
      example: 10,
    },
  },
} as const satisfies MappingTable;

const INPUT = {
  form: (text) => `{ from: ${text} }`,
  keys: {
    from: {
      as: 'from',
      type: { is: 'text', holds: "an output's name" },
      required: true,
      doc: "An output's name, or `stage.output` where several have that name.",
      example: 'tables',
    },
    guest: {
      as: 'guestPath',
      type: { is: 'text', holds: 'absolute path', plain: true, absolute: true },
      default: GUEST_PATH_DEFAULTS.input,
      doc: 'Where it is put.',
      example: '/workspace/tables',
    },
  },
} as const satisfies MappingTable;

const OUTPUT = {
  form: (text) => (text.startsWith('/') ? `{ name: data, guest: ${text} }` : `{ name: ${text} }`),
  keys: {
    name: { as: 'name', type: { is: 'name' }, required: true, doc: 'Unique in the stage.', example: 'tables' },
    guest: {
      as: 'guestPath',
      type: { is: 'text', holds: 'absolute path', plain: true, absolute: true },
      default: GUEST_PATH_DEFAULTS.output,
      doc: 'The folder or file.',
      example: '/workspace/tables',
    },
  },
} as const satisfies MappingTable;

/** A step of a workflow or a box of a pipeline. */
export const STAGE = {
  keys: {
    name: { as: 'name', type: { is: 'name' }, required: true, doc: 'Unique in the spec.', example: 'fetch' },
    run: {
      as: 'run',
      type: { is: 'mapping', table: RUN },
      required: true,
      form: 'run: { program: sh, args: [-c, …] }',
      doc: 'The command.',
      example: { program: 'sh', args: ['-c', 'ls | wc -l'] },
    },
    depends_on: {
      as: 'dependsOn',
      type: {
        is: 'list',
        of: { is: 'text', holds: "a step's name" },
        item: 'an item of `depends_on`',
        items: 'names of steps',
      },
      kinds: ['workflow'],
      doc: 'Steps that have to succeed before this one starts.',
      example: ['fetch'],
    },
    env: {
      as: 'env',
      type: { is: 'variables' },
      doc: 'Variables of the command. See [Variables](#variables).',
      example: { LANG: 'C.UTF-8' },
    },
    inputs: {
      as: 'inputs',
      type: { is: 'list', of: { is: 'mapping', table: INPUT }, item: 'an input' },
      doc: 'Named outputs of earlier stages, put into the guest before the command starts.',
      example: [{ from: 'tables', guest: '/workspace/tables' }],
    },
    outputs: {
      as: 'outputs',
      type: { is: 'list', of: { is: 'mapping', table: OUTPUT }, item: 'an output' },
      doc: 'Folders or files that other stages may take.',
      example: [{ name: 'tables', guest: '/workspace/tables' }],
    },
    output_file: {
      as: 'outputFile',
      type: { is: 'text', holds: 'absolute path', plain: true, absolute: true },
      doc: "The file whose bytes are the stage's output, instead of what it prints.",
      example: '/workspace/report.json',
    },
    timeout_secs: {
      as: 'timeoutMs',
      type: { is: 'number', range: RANGES.timeoutSecs, scale: SCALES.msPerSecond },
      default: STAGE_DEFAULTS.timeoutMs / SCALES.msPerSecond,
      doc: 'For one attempt; then the command is killed.',
      example: 90,
    },
    retry: {
      as: 'retry',
      type: { is: 'mapping', table: RETRY },
      doc: 'Whether a failed command is tried again.',
      example: { max_attempts: 3, backoff_secs: 10 },
    },
    max_output_mb: {
      as: 'maxOutputBytes',
      type: { is: 'number', range: RANGES.outputMib, scale: SCALES.bytesPerMib },
      default: STAGE_DEFAULTS.maxOutputBytes / SCALES.bytesPerMib,
      doc: 'Of standard output and error together; more fails the stage.',
      example: 16,
    },
    sandbox: {
      as: 'sandbox',
      type: { is: 'mapping', table: SANDBOX },
      otherwise: "the spec's",
      doc: "What it says wins over the spec's; `env` and `mounts` are added.",
      example: { memory_mb: 1024 },
    },
  },
  unsupported: {
    prompt: {
      severity: 'error',
      message: 'not supported yet: `prompt`; stages are commands',
      remedy: 'write `run: {program, args}` instead',
    },
    skills: { severity: 'error', message: 'not supported yet: `skills`; stages are commands', remedy: 'take it out' },
    llm: { severity: 'warning', message: '`llm` has no effect yet: stages are commands', remedy: 'take it out' },
    mode: {
      severity: 'error',
      message: 'not supported yet: `mode` of a step',
      remedy: 'take it out: a step ends when its command does',
    },
  },
} as const satisfies MappingTable;
