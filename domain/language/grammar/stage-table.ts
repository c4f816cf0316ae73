import { PLAN_LIMITS } from '../../plan/plan.ts';
import {
  AGENT_STAGE_DEFAULTS,
  COMMAND_DEFAULTS,
  INPUT_DEFAULTS,
  RETRY_DEFAULTS,
  STAGE_DEFAULTS,
} from '../../plan/defaults.ts';
import { BUDGET_KEY, LLM, PROMPT_DOC, PROMPT_FILES, SKILLS, SKILLS_EXAMPLE } from './agent-table.ts';
import { APPROVAL } from './approval-table.ts';
import { MOCK_KEY } from './mock-table.ts';
import { OUTPUT_SCHEMA_KEY } from './output-schema-key.ts';
import { SANDBOX } from './sandbox-table.ts';
import { SKILL } from './skill-table.ts';
import { WAIT } from './wait-table.ts';
import { WORKSPACE_KEY } from './workspace-table.ts';
import type { Keys, MappingTable } from './table.ts';
import { RANGES, SCALES, VARIABLE_LIMITS } from './values.ts';

/** The default places of inputs and outputs without `guest`. */
export const GUEST_PATH_DEFAULTS = { input: '/workspace/input', output: '/workspace/output' } as const;

const RETRY = {
  of: 'outer',
  keys: {
    max_attempts: {
      as: 'maxAttempts',
      mistaken: ['attempts', 'retries', 'max_retries'],
      type: { is: 'number', range: RANGES.attempts },
      default: RETRY_DEFAULTS.maxAttempts,
      doc: 'Attempts of a failing command. A lost VM is replaced separately, at most 3 times.',
      example: 3,
    },
    backoff_secs: {
      as: 'backoffMs',
      mistaken: ['backoff_seconds', 'backoff_ms', 'delay', 'delay_secs'],
      type: { is: 'number', range: RANGES.backoffSecs, scale: SCALES.msPerSecond },
      excludes: ['initial_secs', 'max_secs', 'backoff'],
      default: RETRY_DEFAULTS.backoffMs / SCALES.msPerSecond,
      doc: 'The same pause after each attempt.',
      example: 10,
    },
    initial_secs: {
      as: 'initialMs',
      mistaken: ['initial', 'initial_interval', 'initial_backoff', 'initial_delay', 'initial_delay_secs'],
      type: { is: 'number', range: RANGES.backoffSecs, scale: SCALES.msPerSecond },
      default: RETRY_DEFAULTS.backoffMs / SCALES.msPerSecond,
      doc: 'The first pause.',
      example: 1,
    },
    max_secs: {
      as: 'maxMs',
      mistaken: ['max_interval', 'maximum_interval', 'max_backoff', 'max_backoff_secs', 'max_delay', 'max_delay_secs'],
      type: { is: 'number', range: RANGES.backoffSecs, scale: SCALES.msPerSecond },
      default: RANGES.backoffSecs.max,
      doc: 'The longest pause.',
      example: 60,
    },
    backoff: {
      as: 'factor',
      mistaken: ['factor', 'multiplier', 'exponential', 'backoff_coefficient', 'backoff_factor', 'backoff_rate'],
      type: { is: 'number', range: RANGES.backoff },
      default: 1,
      doc: 'The factor from each pause to the next.',
      example: 2,
    },
    non_retryable: {
      as: 'nonRetryable',
      type: {
        is: 'list',
        of: { is: 'text', holds: 'text' },
        item: 'an item of `non_retryable`',
        items: '[error codes](errors.md) or `exit:N`',
        most: PLAN_LIMITS.nonRetryable,
      },
      mistaken: ['non_retriable', 'non_retryable_errors', 'non_retryable_error_types', 'except', 'abort_on'],
      doc: 'Failures without another attempt. `exit:2` means exit code 2.',
      example: ['stage/timeout', 'exit:2'],
    },
  },
} as const satisfies MappingTable;

const INPUT = {
  form: (text) => `{ from: ${text} }`,
  keys: {
    from: {
      as: 'from',
      mistaken: ['source', 'name', 'step', 'box'],
      type: { is: 'text', holds: "an output's name" },
      required: true,
      doc: 'An output, or `stage.output` if several stages have one of that name.',
      example: 'tables',
    },
    guest: {
      as: 'guestPath',
      type: { is: 'text', holds: 'absolute path', plain: true, absolute: true },
      mistaken: ['path', 'target', 'to', 'dest', 'guest_path'],
      default: GUEST_PATH_DEFAULTS.input,
      doc: 'The folder for its content.',
      example: '/workspace/tables',
    },
    optional: {
      as: 'optional',
      type: { is: 'flag' },
      mistaken: ['may_be_missing', 'if_present'],
      default: INPUT_DEFAULTS.optional,
      doc: 'If the output is absent, Voidbox puts nothing there. See [Failures that are tolerated](#failures-that-are-tolerated).',
      example: true,
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
      mistaken: ['path', 'source', 'guest_path'],
      default: GUEST_PATH_DEFAULTS.output,
      doc: 'The folder or file.',
      example: '/workspace/tables',
    },
  },
} as const satisfies MappingTable;

/** Keys of a step or box other than its command. */
export const BESIDE_RUN = {
  depends_on: {
    as: 'dependsOn',
    type: {
      is: 'list',
      of: { is: 'text', holds: "a step's name" },
      item: 'an item of `depends_on`',
      items: 'names',
    },
    kinds: ['workflow'],
    feeds: 'edges',
    mistaken: ['needs', 'after', 'depends', 'depend_on', 'dependencies', 'requires', 'wait_for'],
    form: 'depends_on: [STEP, …]',
    doc: 'Steps that must succeed first.',
    example: ['fetch'],
  },
  on_failure: {
    as: 'onFailure',
    type: {
      is: 'list',
      of: { is: 'text', holds: "a stage's name" },
      item: 'an item of `on_failure`',
      items: 'names',
    },
    feeds: 'edges',
    mistaken: ['catch', 'rescue', 'on_error', 'if_failed', 'when_failed', 'failure_of'],
    form: 'on_failure: [STEP, …]',
    doc: 'Starts if one of these stages fails, else is skipped. See [After a failure](#after-a-failure).',
    example: ['fetch'],
  },
  when: {
    as: 'when',
    feeds: 'edges',
    mistaken: ['if', 'condition', 'only_if', 'run_if'],
    type: {
      is: 'text',
      holds: 'expression',
      lenient: true,
      filled: 'write a condition, such as `params.env == "prod"`',
    },
    form: 'when: EXPRESSION',
    doc: 'Runs if this holds, else is passed. See [Conditions](#conditions).',
    example: 'params.env == "prod" && stages.build.json.ok',
  },
  env: {
    as: 'env',
    goesWith: ['run', 'prompt', 'skill'],
    type: { is: 'variables' },
    mistaken: ['environment', 'variables', 'env_vars'],
    doc: 'Variables of the command. See [Variables](#variables).',
    example: { LANG: 'C.UTF-8' },
  },
  secrets: {
    as: 'secrets',
    goesWith: ['run', 'prompt', 'skill'],
    type: {
      is: 'list',
      of: { is: 'text', holds: "a variable's name", variable: true },
      item: 'a secret',
      items: 'variables',
      most: VARIABLE_LIMITS.count,
    },
    feeds: 'secrets',
    mistaken: ['secret', 'credentials'],
    form: 'secrets: [NAME, …]',
    doc: 'Variables of the host that must be set. See [Secrets](#secrets).',
    example: ['API_TOKEN'],
  },
  inputs: {
    as: 'inputs',
    goesWith: ['run', 'prompt', 'skill'],
    type: { is: 'list', of: { is: 'mapping', table: INPUT }, item: 'an input' },
    feeds: 'edges',
    mistaken: ['input'],
    form: 'inputs: [{ from: OUTPUT }]',
    doc: 'Named outputs of earlier stages. See [Where inputs and outputs lie](#where-inputs-and-outputs-lie).',
    example: [{ from: 'tables', guest: '/workspace/tables' }],
  },
  outputs: {
    as: 'outputs',
    goesWith: ['run', 'prompt', 'skill'],
    type: { is: 'list', of: { is: 'mapping', table: OUTPUT }, item: 'an output' },
    feeds: 'outputs',
    mistaken: ['output', 'artifacts'],
    form: 'outputs: [{ name: NAME, guest: PATH }]',
    doc: 'Folders or files for other stages. See [Where inputs and outputs lie](#where-inputs-and-outputs-lie).',
    example: [{ name: 'tables', guest: '/workspace/tables' }],
  },
  output_file: {
    as: 'outputFile',
    goesWith: ['run', 'prompt'],
    mistaken: ['output_path', 'result_file'],
    type: { is: 'text', holds: 'absolute path', plain: true, absolute: true },
    doc: "A file whose content is the stage's output instead of standard output.",
    example: '/workspace/report.json',
  },
  timeout_secs: {
    as: 'timeoutMs',
    goesWith: ['run', 'prompt', 'skill'],
    type: { is: 'number', range: RANGES.timeoutSecs, scale: SCALES.msPerSecond },
    mistaken: ['timeout', 'timeout_sec', 'timeout_seconds', 'timeout_ms', 'timeout_minutes', 'time_limit'],
    otherwise: `\`${STAGE_DEFAULTS.timeoutMs / SCALES.msPerSecond}\`; \`${AGENT_STAGE_DEFAULTS.timeoutMs / SCALES.msPerSecond}\` of an agent`,
    doc: 'Time limit for one attempt. See [Interrupted stages](runs.md#interrupted-stages).',
    example: 90,
  },
  retry: {
    as: 'retry',
    goesWith: ['run', 'prompt', 'skill'],
    type: { is: 'mapping', table: RETRY },
    mistaken: ['retries', 'retry_policy'],
    form: 'retry: { max_attempts: 3 }',
    doc: 'Retries of a failed command. See [Retries](#retries).',
    example: { max_attempts: 3, initial_secs: 1 },
  },
  with: {
    as: 'partParams',
    goesWith: ['uses'],
    type: { is: 'json', holds: 'mapping', shapes: ['object'] },
    mistaken: ['arguments', 'parameters'],
    form: 'with: { NAME: VALUE }',
    doc: 'Parameters of the part. See [Parts](#parts).',
    example: { branch: 'main' },
  },
  continue_on_error: {
    as: 'continueOnError',
    goesWith: ['run', 'approval', 'wait', 'prompt', 'skill', 'uses'],
    type: { is: 'flag' },
    mistaken: ['allow_failure', 'ignore_errors', 'ignore_failure', 'ignore_error'],
    default: false,
    doc: 'Its failure is tolerated: its dependents still start. See [Failures that are tolerated](#failures-that-are-tolerated).',
    example: true,
  },
  finally: {
    as: 'finally',
    goesWith: ['run'],
    type: { is: 'flag' },
    excludes: ['depends_on', 'on_failure', 'for_each', 'outputs', 'mode'],
    mistaken: ['always', 'always_run', 'run_always', 'ensure', 'cleanup', 'teardown', 'on_exit', 'after_all'],
    default: false,
    doc: 'Runs after all other stages, whatever happens. See [Whatever happens](#whatever-happens).',
    example: true,
  },
  max_output_mb: {
    as: 'maxOutputBytes',
    goesWith: ['run', 'prompt'],
    type: { is: 'number', range: RANGES.outputMib, scale: SCALES.bytesPerMib },
    mistaken: ['max_output', 'output_limit'],
    default: STAGE_DEFAULTS.maxOutputBytes / SCALES.bytesPerMib,
    doc: 'Limit for standard output and error together.',
    example: 16,
  },
  for_each: {
    as: 'forEach',
    goesWith: ['run', 'uses'],
    type: { is: 'json', holds: 'list or expression', shapes: ['string', 'array'], isPrinted: true },
    feeds: 'edges',
    excludes: ['outputs', 'mode'],
    mistaken: ['with_items', 'foreach', 'loop_over', 'items', 'each'],
    form: 'for_each: [VALUE, …]',
    doc: 'Runs the command or part for each item of a list. See [Items](#items).',
    example: ['eu', 'us'],
  },
  max_parallel: {
    as: 'itemsAtOnce',
    goesWith: ['run', 'uses'],
    needs: 'for_each',
    type: { is: 'number', range: RANGES.maxParallel },
    mistaken: ['parallelism', 'concurrency', 'max_concurrency'],
    otherwise: "the run's `max_parallel`",
    doc: 'Items of `for_each` at the same time.',
    example: 10,
  },
  fail_fast: {
    as: 'failFast',
    goesWith: ['run', 'uses'],
    needs: 'for_each',
    type: { is: 'flag' },
    default: false,
    doc: 'Too many failed items of `for_each` cancel the others.',
    example: true,
  },
  allow_failures: {
    as: 'allowFailures',
    goesWith: ['run', 'uses'],
    needs: 'for_each',
    type: { is: 'number', range: RANGES.listItems },
    default: 0,
    doc: 'Items of `for_each` that may fail.',
    example: 2,
  },
  sandbox: {
    as: 'sandbox',
    goesWith: ['run', 'prompt', 'skill'],
    type: { is: 'mapping', table: SANDBOX },
    otherwise: "the spec's",
    doc: "Overrides the spec's `sandbox` key by key; `env` and `mounts` are added. See [Sandbox](#sandbox).",
    example: { memory_mb: 1024 },
  },
  output_schema: { ...OUTPUT_SCHEMA_KEY, goesWith: ['run', 'prompt', 'skill', 'uses'] },
  workspace: { ...WORKSPACE_KEY, goesWith: ['run', 'prompt'], excludes: ['for_each', 'finally', 'mode'] },
  mock: { ...MOCK_KEY, goesWith: ['run', 'prompt', 'skill', 'uses'] },
  skills: {
    as: 'skills',
    goesWith: ['prompt'],
    type: SKILLS,
    doc: 'Documents, programs and images for the agent. See [Agents](#agents).',
    example: SKILLS_EXAMPLE,
  },
  llm: {
    as: 'llm',
    goesWith: ['prompt'],
    type: { is: 'mapping', table: LLM },
    mistaken: ['provider', 'model', 'base_url', 'api_key_env'],
    form: 'llm: { provider: NAME, model: NAME }',
    otherwise: "the spec's",
    doc: "Replaces the spec's `llm`. See [Agents](#agents).",
    example: { provider: 'ollama' },
  },
  budget: { ...BUDGET_KEY, goesWith: ['prompt'] },
  mode: {
    as: 'mode',
    goesWith: ['run', 'prompt'],
    type: { is: 'word', words: ['service'] },
    kinds: ['workflow'],
    doc: 'Serves until the run is cancelled. See [Services](#services).',
    example: 'service',
  },
} as const satisfies Keys;

export const RUN = {
  keys: {
    program: {
      as: 'program',
      mistaken: ['command', 'cmd', 'exec', 'executable', 'entrypoint', 'bin'],
      type: { is: 'text', holds: 'text', filled: 'name a program of the guest, such as sh' },
      group: 'command',
      doc: 'A program of the guest, by name or path.',
      example: 'sh',
    },
    script: {
      as: 'text',
      mistaken: ['shell', 'sh', 'text', 'run'],
      type: { is: 'text', holds: 'text', lenient: true, filled: 'write a command, such as `npm test`' },
      group: 'command',
      excludes: ['args'],
      doc: 'The same as `run: TEXT`.',
      example: 'npm ci && npm test',
    },
    args: {
      as: 'args',
      mistaken: ['arguments', 'argv'],
      type: { is: 'list', of: { is: 'text', holds: 'text', lenient: true }, item: 'an argument', items: 'texts' },
      doc: 'Arguments, without a shell. Numbers and booleans keep your text.',
      example: ['-c', 'ls | wc -l'],
    },
    stdin_from: {
      as: 'stdinFrom',
      feeds: 'edges',
      mistaken: ['stdin', 'input_from', 'pipe_from'],
      type: { is: 'text', holds: "a stage's name" },
      doc: 'An earlier stage whose output becomes standard input.',
      example: 'fetch',
    },
    cwd: {
      as: 'cwd',
      mistaken: ['workdir', 'working_directory', 'working_dir', 'dir', 'directory'],
      type: { is: 'text', holds: 'absolute path', plain: true, absolute: true },
      default: COMMAND_DEFAULTS.cwd,
      doc: 'The working folder of the command.',
      example: '/data',
    },
  },
  misplaced: { 'the step or box, beside `run`': BESIDE_RUN },
} as const satisfies MappingTable;

/** A step of a workflow or a box of a pipeline. */
export const STAGE = {
  keys: {
    name: { as: 'name', type: { is: 'name' }, required: true, doc: 'Unique in the spec.', example: 'fetch' },
    run: {
      as: 'run',
      type: { is: 'command', table: RUN, filled: 'write a command, such as `run: npm test`' },
      group: 'work',
      mistaken: ['command', 'cmd', 'exec', 'script', 'shell'],
      form: 'run: COMMAND',
      doc: 'A text for `sh -e -c`, or a program with arguments. See [Commands](#commands).',
      example: 'npm ci && npm test',
    },
    approval: {
      as: 'approval',
      type: { is: 'mapping', table: APPROVAL },
      group: 'work',
      mistaken: ['approve', 'manual', 'gate', 'confirm'],
      form: 'approval: { message: TEXT }',
      doc: 'A question to people. See [Approvals](#approvals).',
      example: { message: 'Deploy to production?', timeout: '2d' },
    },
    wait: {
      as: 'wait',
      type: { is: 'mapping', table: WAIT },
      group: 'work',
      mistaken: ['sleep', 'delay', 'pause', 'timer'],
      form: 'wait: { for: 90s }',
      doc: 'A pause, without a VM. See [Waits](#waits).',
      example: { for: '90s' },
    },
    prompt: {
      as: 'prompt',
      type: { is: 'text', holds: 'text', filled: 'write what the agent is asked' },
      group: 'work',
      doc: `${PROMPT_DOC} See [Agents](#agents).`,
      example: 'Review the code in /workspace.',
    },
    skill: {
      as: 'skill',
      type: { is: 'mapping', table: SKILL },
      group: 'work',
      mistaken: ['state_machine', 'step_machine', 'machine'],
      form: 'skill: { use: ./SKILL }',
      doc: 'A step machine, whose prompts an agent answers. See [Step machines](#step-machines).',
      example: { use: './skills/release', params: { place: 'Ulm' } },
    },
    uses: {
      as: 'uses',
      type: {
        is: 'text',
        holds: 'path, name of a part, or both',
        plain: true,
        filled: 'name a spec, such as ./review.yaml, or a part',
      },
      group: 'work',
      feeds: 'edges',
      mistaken: ['use', 'include', 'import', 'call', 'sub_pipeline', 'subworkflow'],
      form: 'uses: ./FILE.yaml',
      doc: 'Another spec, one of `parts`, or a part of another file (`./review.yaml#lint`). See [Parts](#parts).',
      example: './review.yaml',
    },
    ...BESIDE_RUN,
  },
  misplaced: {
    '`approval`': APPROVAL.keys,
    '`retry`': RETRY.keys,
    '`sandbox`': SANDBOX.keys,
    '`run`': RUN.keys,
    '`skill`': SKILL.keys,
  },
  unsupported: {
    ...PROMPT_FILES,
    // A box has no such key; a step has it.
    depends_on: {
      severity: 'error',
      code: 'spec/wrong-key',
      message: 'a box has no `depends_on`: boxes run in the order of `stages`',
      remedy:
        'put the box into a later stage of `pipeline`, or write `kind: workflow`, whose steps depend on each other',
    },
    agent: {
      severity: 'error',
      code: 'spec/wrong-key',
      message: 'a step or box has no `agent`',
      remedy:
        'write `prompt`, and what else the agent has, in the step or box itself; of a step machine, write `agent` in `skill`',
    },
    unless: {
      severity: 'error',
      message: 'not supported: `unless`',
      remedy: 'write `when` with the opposite: `when: "!(EXPRESSION)"`',
    },
    ...Object.fromEntries(
      ['matrix', 'strategy'].map((key) => [
        key,
        {
          severity: 'error',
          message: `not supported: \`${key}\``,
          remedy: 'write `for_each` with a list whose items are mappings, such as `for_each: [{ os: a, version: 1 }]`',
        } as const,
      ]),
    ),
    image: {
      severity: 'error',
      message: 'not supported: `image`; it belongs to `sandbox`',
      remedy: 'write `sandbox: { image: dev }` for bash, git, node and python3, or remove it',
    },
    user: {
      severity: 'error',
      message: 'not supported: `user`; commands run as the user `sandbox` (uid 1000)',
      remedy: 'remove it',
    },
    // A box has no such key; a step has it.
    mode: {
      severity: 'error',
      code: 'spec/wrong-key',
      message: 'a box has no `mode`: it ends when its command does',
      remedy: 'remove it, or write `kind: workflow`, whose steps may be services',
    },
  },
} as const satisfies MappingTable;
