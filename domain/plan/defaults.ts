/**
 * The default values of stages and VMs. A recorded plan omits them (`wire.ts`), so they are part of the Plan format.
 * Another default for specs must not change what a recorded plan means.
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

/** The `timeoutMs` of a service, which has no time limit: ten years, longer than any VM lives. */
export const SERVICE_TIMEOUT_MS = 3_650 * 24 * 3_600_000;

/** The default for all stages with `finally` together. */
export const GRACE_MS = 300_000;

/** Defaults for specs only: a plan always contains the values. */
export const AGENT_STAGE_DEFAULTS = {
  timeoutMs: 1_200_000,
  outputFile: '/workspace/output.json',
} as const;

export const APPROVAL_DEFAULTS = {
  by: [],
  selfApproval: true,
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

/** Defaults for specs only: a plan always contains the value. */
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

/** The limit of `voidbox-vmm` (docs/reference/vmm.md). Its keeper refuses more, but only at the launch. */
export const NATIVE_VMM_VCPUS = 32;
