/**
 * What a stage and a VM get where nothing is said. A plan on its way leaves these values out (`wire.ts`), so
 * they are part of the Plan format: another default for specs must not change what a recorded plan means.
 */
import type { CommandWork, RetryPlan, SandboxPlan, StagePlan } from './plan.ts';

export const COMMAND_DEFAULTS = {
  args: [],
  cwd: '/workspace',
  env: [],
  stdin: { kind: 'none' },
} as const satisfies Partial<CommandWork>;

export const RETRY_DEFAULTS: RetryPlan = { maxAttempts: 1, backoffMs: 0 };

export const STAGE_DEFAULTS = {
  after: [],
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
