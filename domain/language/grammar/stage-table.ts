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
      doc: 'The total number of attempts of a failing command. A lost VM is retried separately, at most 3 times.',
      example: 3,
    },
    backoff_secs: {
      as: 'backoffMs',
      mistaken: ['backoff_seconds', 'backoff_ms', 'delay', 'delay_secs'],
      type: { is: 'number', range: RANGES.backoffSecs, scale: SCALES.msPerSecond },
      excludes: ['initial_secs', 'max_secs', 'backoff'],
      default: RETRY_DEFAULTS.backoffMs / SCALES.msPerSecond,
      doc: 'The same pause after each failed attempt.',
      example: 10,
    },
    initial_secs: {
      as: 'initialMs',
      mistaken: ['initial', 'initial_interval', 'initial_backoff', 'initial_delay', 'initial_delay_secs'],
      type: { is: 'number', range: RANGES.backoffSecs, scale: SCALES.msPerSecond },
      default: RETRY_DEFAULTS.backoffMs / SCALES.msPerSecond,
      doc: 'The pause after the first failed attempt.',
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
      doc: 'Failures that are final: the stage fails at once. `exit:2` means exit code 2.',
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
      doc: "An output's name, or `stage.output` if several stages have an output of that name.",
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
      doc: 'If the output is absent, Voidbox puts nothing there: the stage was passed, or its failure is tolerated. Required for an output of a stage with `when` or `continue_on_error`, and in a stage with `finally`.',
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
      items: 'names of steps',
    },
    kinds: ['workflow'],
    feeds: 'edges',
    mistaken: ['needs', 'after', 'depends', 'depend_on', 'dependencies', 'requires', 'wait_for'],
    form: 'depends_on: [STEP, …]',
    doc: 'Steps that must succeed before this one starts.',
    example: ['fetch'],
  },
  on_failure: {
    as: 'onFailure',
    type: {
      is: 'list',
      of: { is: 'text', holds: "a stage's name" },
      item: 'an item of `on_failure`',
      items: 'names of stages',
    },
    feeds: 'edges',
    mistaken: ['catch', 'rescue', 'on_error', 'if_failed', 'when_failed', 'failure_of'],
    form: 'on_failure: [STEP, …]',
    doc: 'The stage starts if one of these stages fails; otherwise it is skipped. See [After a failure](#after-a-failure).',
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
    doc: 'The stage runs only if this holds; otherwise it is passed. See [Conditions](#conditions).',
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
      items: 'names of variables',
      most: VARIABLE_LIMITS.count,
    },
    feeds: 'secrets',
    mistaken: ['secret', 'credentials'],
    form: 'secrets: [NAME, …]',
    doc: 'Variables of the host that this command gets. They must be set. See [Secrets](#secrets).',
    example: ['API_TOKEN'],
  },
  inputs: {
    as: 'inputs',
    goesWith: ['run', 'prompt', 'skill'],
    type: { is: 'list', of: { is: 'mapping', table: INPUT }, item: 'an input' },
    feeds: 'edges',
    mistaken: ['input'],
    form: 'inputs: [{ from: OUTPUT }]',
    doc: 'Named outputs of earlier stages, put into the guest before the command starts.',
    example: [{ from: 'tables', guest: '/workspace/tables' }],
  },
  outputs: {
    as: 'outputs',
    goesWith: ['run', 'prompt', 'skill'],
    type: { is: 'list', of: { is: 'mapping', table: OUTPUT }, item: 'an output' },
    feeds: 'outputs',
    mistaken: ['output', 'artifacts'],
    form: 'outputs: [{ name: NAME, guest: PATH }]',
    doc: 'Folders or files that other stages can use as inputs.',
    example: [{ name: 'tables', guest: '/workspace/tables' }],
  },
  output_file: {
    as: 'outputFile',
    goesWith: ['run', 'prompt'],
    mistaken: ['output_path', 'result_file'],
    type: { is: 'text', holds: 'absolute path', plain: true, absolute: true },
    doc: "A file whose content is the stage's output, instead of its standard output.",
    example: '/workspace/report.json',
  },
  timeout_secs: {
    as: 'timeoutMs',
    goesWith: ['run', 'prompt', 'skill'],
    type: { is: 'number', range: RANGES.timeoutSecs, scale: SCALES.msPerSecond },
    mistaken: ['timeout', 'timeout_sec', 'timeout_seconds', 'timeout_ms', 'timeout_minutes', 'time_limit'],
    otherwise: `\`${STAGE_DEFAULTS.timeoutMs / SCALES.msPerSecond}\`; \`${AGENT_STAGE_DEFAULTS.timeoutMs / SCALES.msPerSecond}\` of an agent`,
    doc: 'Time limit for one attempt. Then the command gets SIGTERM, and SIGKILL 2 seconds later.',
    example: 90,
  },
  retry: {
    as: 'retry',
    goesWith: ['run', 'prompt', 'skill'],
    type: { is: 'mapping', table: RETRY },
    mistaken: ['retries', 'retry_policy'],
    form: 'retry: { max_attempts: 3 }',
    doc: 'Retries of a failed command.',
    example: { max_attempts: 3, initial_secs: 1 },
  },
  with: {
    as: 'partParams',
    goesWith: ['uses'],
    type: { is: 'json', holds: 'mapping', shapes: ['object'] },
    mistaken: ['arguments', 'parameters'],
    form: 'with: { NAME: VALUE }',
    doc: 'Values for the parameters of the part. They can contain placeholders.',
    example: { branch: 'main' },
  },
  continue_on_error: {
    as: 'continueOnError',
    goesWith: ['run', 'approval', 'wait', 'prompt', 'skill', 'uses'],
    type: { is: 'flag' },
    mistaken: ['allow_failure', 'ignore_errors', 'ignore_failure', 'ignore_error'],
    default: false,
    doc: 'Its failure is tolerated: its dependents still start, and the run can succeed. See [Failures that are tolerated](#failures-that-are-tolerated).',
    example: true,
  },
  finally: {
    as: 'finally',
    goesWith: ['run'],
    type: { is: 'flag' },
    excludes: ['depends_on', 'on_failure', 'for_each', 'outputs', 'mode'],
    mistaken: ['always', 'always_run', 'run_always', 'ensure', 'cleanup', 'teardown', 'on_exit', 'after_all'],
    default: false,
    doc: 'It runs after all other stages, whatever their outcome, also in a cancelled run. See [Whatever happens](#whatever-happens).',
    example: true,
  },
  max_output_mb: {
    as: 'maxOutputBytes',
    goesWith: ['run', 'prompt'],
    type: { is: 'number', range: RANGES.outputMib, scale: SCALES.bytesPerMib },
    mistaken: ['max_output', 'output_limit'],
    default: STAGE_DEFAULTS.maxOutputBytes / SCALES.bytesPerMib,
    doc: 'Limit for standard output and standard error together; the stage fails above it.',
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
    doc: 'A list of values, or an expression that names a list or files. The command or the part runs once for each item, in new VMs. See [Items](#items).',
    example: ['eu', 'us'],
  },
  max_parallel: {
    as: 'itemsAtOnce',
    goesWith: ['run', 'uses'],
    needs: 'for_each',
    type: { is: 'number', range: RANGES.maxParallel },
    mistaken: ['parallelism', 'concurrency', 'max_concurrency'],
    otherwise: "the run's `max_parallel`",
    doc: 'With `for_each`: the maximum number of items that run at the same time. They do not count for `max_parallel` of the spec.',
    example: 10,
  },
  fail_fast: {
    as: 'failFast',
    goesWith: ['run', 'uses'],
    needs: 'for_each',
    type: { is: 'flag' },
    default: false,
    doc: 'With `for_each`: once more items have failed than `allow_failures` allows, running items are cancelled and no other item starts.',
    example: true,
  },
  allow_failures: {
    as: 'allowFailures',
    goesWith: ['run', 'uses'],
    needs: 'for_each',
    type: { is: 'number', range: RANGES.listItems },
    default: 0,
    doc: 'With `for_each`: the number of items that may fail while the stage succeeds.',
    example: 2,
  },
  sandbox: {
    as: 'sandbox',
    goesWith: ['run', 'prompt', 'skill'],
    type: { is: 'mapping', table: SANDBOX },
    otherwise: "the spec's",
    doc: "Overrides the spec's `sandbox` key by key; `env` and `mounts` are added to the spec's.",
    example: { memory_mb: 1024 },
  },
  output_schema: { ...OUTPUT_SCHEMA_KEY, goesWith: ['run', 'prompt', 'skill', 'uses'] },
  workspace: { ...WORKSPACE_KEY, goesWith: ['run', 'prompt'], excludes: ['for_each', 'finally', 'mode'] },
  mock: { ...MOCK_KEY, goesWith: ['run', 'prompt', 'skill', 'uses'] },
  skills: {
    as: 'skills',
    goesWith: ['prompt'],
    type: SKILLS,
    doc: 'Agent skills: documents, programs and images for the agent. See [Agents](#agents).',
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
    doc: 'A command or agent that serves until the run is cancelled, without a time limit. An agent needs `output_file`.',
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
      doc: 'The name or the path of a program in the guest.',
      example: 'sh',
    },
    script: {
      as: 'text',
      mistaken: ['shell', 'sh', 'text', 'run'],
      type: { is: 'text', holds: 'text', lenient: true, filled: 'write a command, such as `npm test`' },
      group: 'command',
      excludes: ['args'],
      doc: 'A text for `sh -e -c`, as `run: TEXT`. See [Commands](#commands).',
      example: 'npm ci && npm test',
    },
    args: {
      as: 'args',
      mistaken: ['arguments', 'argv'],
      type: { is: 'list', of: { is: 'text', holds: 'text', lenient: true }, item: 'an argument', items: 'texts' },
      doc: 'Arguments, passed without a shell. Numbers and booleans keep the text that you write.',
      example: ['-c', 'ls | wc -l'],
    },
    stdin_from: {
      as: 'stdinFrom',
      feeds: 'edges',
      mistaken: ['stdin', 'input_from', 'pipe_from'],
      type: { is: 'text', holds: "a stage's name" },
      doc: 'The stage whose output becomes standard input. In a pipeline, a box of an earlier stage.',
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
      doc: 'The command: a text for `sh -e -c`, or a program with its arguments. See [Commands](#commands).',
      example: 'npm ci && npm test',
    },
    approval: {
      as: 'approval',
      type: { is: 'mapping', table: APPROVAL },
      group: 'work',
      mistaken: ['approve', 'manual', 'gate', 'confirm'],
      form: 'approval: { message: TEXT }',
      doc: 'A question to people. The stage waits for their answer. See [Approvals](#approvals).',
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
        holds: 'path of a spec, name of a part, or both with `#` between them',
        plain: true,
        filled: 'name a spec, such as ./review.yaml, or a part',
      },
      group: 'work',
      feeds: 'edges',
      mistaken: ['use', 'include', 'import', 'call', 'sub_pipeline', 'subworkflow'],
      form: 'uses: ./FILE.yaml',
      doc: 'Another spec, one of `parts`, or a part of another file (`./review.yaml#lint`), whose stages become part of this spec. See [Parts](#parts).',
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
