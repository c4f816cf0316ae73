/**
 * What a stage and a VM get where nothing is said. A plan on its way leaves these values out (`wire.ts`), so
 * they are part of the Plan format: another default for specs must not change what a recorded plan means.
 */
import type {
  AgentWork,
  ApprovalField,
  ApprovalWork,
  CommandWork,
  ConditionPlan,
  MockPlan,
  RetryPlan,
  SandboxPlan,
  ShellWork,
  StepMachineWork,
  StageInputPlan,
  StagePlan,
  WaitWork,
} from './plan.ts';

export const COMMAND_DEFAULTS = {
  args: [],
  cwd: '/workspace',
  env: [],
  stdin: { kind: 'none' },
} as const satisfies Partial<CommandWork>;

export const AGENT_DEFAULTS = {
  mode: 'task',
  llm: null,
  skills: [],
  env: [],
  messaging: false,
} as const satisfies Partial<AgentWork>;

export const STEP_MACHINE_DEFAULTS = {
  params: {},
  llm: null,
  skills: [],
  env: [],
} as const satisfies Partial<StepMachineWork>;

export const SHELL_DEFAULTS = { env: [] } as const satisfies Partial<ShellWork>;

/** What the plan says of a service, which has no time limit: ten years, longer than any VM lives. */
export const SERVICE_TIMEOUT_MS = 3_650 * 24 * 3_600_000;

/** Of stages with `finally`, where the spec says nothing. */
export const GRACE_MS = 300_000;

/** Of specs alone: a plan says them. */
export const AGENT_STAGE_DEFAULTS = {
  timeoutMs: 1_200_000,
  outputFile: '/workspace/output.json',
} as const;

export const APPROVAL_DEFAULTS = {
  by: [],
  timeoutMs: null,
  onTimeout: 'fail',
  fields: [],
} as const satisfies Partial<ApprovalWork>;

export const MOCK_DEFAULTS = { output: '', exitCode: 0 } as const satisfies MockPlan;

export const WAIT_DEFAULTS = { forMs: null, untilMs: null } as const satisfies Partial<WaitWork>;

export const FIELD_DEFAULTS = {
  type: 'text',
  required: true,
  description: '',
  choices: [],
} as const satisfies Partial<ApprovalField>;

export const INPUT_DEFAULTS = { optional: false } as const satisfies Partial<StageInputPlan>;

/** Of specs alone: a plan says it. */
export const WORKSPACE_DEFAULTS = { guestPath: '/workspace/repository' } as const;

export const CONDITION_DEFAULTS = { stages: [], params: {} } as const satisfies Partial<ConditionPlan>;

export const RETRY_DEFAULTS: RetryPlan = { maxAttempts: 1, backoffMs: 0 };

export const STAGE_DEFAULTS = {
  after: [],
  when: null,
  input: { kind: 'none' },
  inputs: [],
  outputs: [],
  outputFile: null,
  timeoutMs: 3_600_000,
  retry: RETRY_DEFAULTS,
  maxOutputBytes: 256 * 1024 * 1024,
} as const satisfies Partial<StagePlan>;

export const SANDBOX_DEFAULTS = {
  mode: 'auto',
  isolation: 'microvm',
  memoryMib: 512,
  vcpus: 1,
  diskMib: 2_048,
  mounts: [],
} as const satisfies SandboxPlan;
