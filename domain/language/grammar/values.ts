/**
 * The allowed values: words, patterns and ranges, for the tables of the grammar and for the check of plans from
 * outside.
 */
import { PLAN_LIMITS } from '../../plan/plan.ts';

/** The default for stages that run at the same time. */
export const DEFAULT_MAX_PARALLEL = 4;

/** Names of runs, stages, outputs and parameters; `PLAN_LIMITS.nameLength` limits their length. */
export const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/** The durations that `parseDurationMs` accepts. */
export const DURATION = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/;

/** A repository on GitHub: its owner and its name. */
export const REPOSITORY = /^[A-Za-z0-9][A-Za-z0-9._-]*\/[A-Za-z0-9][A-Za-z0-9._-]*$/;

export const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** The name of a service, which `/etc/hosts` of a guest contains. */
export const HOST_LABEL = /^[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/** Names that a guest already has. */
export const RESERVED_LABELS: readonly string[] = ['localhost', 'voidbox'];
export const HOST_LABEL_REMEDY =
  'use 1 to 63 lower-case letters, digits and hyphens, a letter first; not `localhost` or `voidbox`';

export const VARIABLE_LIMITS = {
  nameLength: 256,
  /** The most variables of one mapping; each stage gets its own copy of them. */
  count: 256,
} as const;

export const VARIABLE_REMEDY = 'use letters, digits and `_`, not a digit first';

export function isVariable(name: string): boolean {
  return VARIABLE.test(name) && name.length <= VARIABLE_LIMITS.nameLength;
}

export interface NumberRange {
  readonly min: number;
  readonly max: number;
  readonly integer: boolean;
  readonly unit: string;
}

/** The ranges in the units of a spec. A plan has the same ranges in its own units: `scaled`. */
export const RANGES = {
  maxParallel: { min: 1, max: 1_000, integer: true, unit: 'stages' },
  timeoutSecs: { min: 0.001, max: 7 * 24 * 3_600, integer: false, unit: 'seconds' },
  runTimeoutSecs: { min: 1, max: 400 * 24 * 3_600, integer: false, unit: 'seconds' },
  graceSecs: { min: 1, max: 24 * 3_600, integer: false, unit: 'seconds' },
  /** 0 means the longest time limit that a stage can have. */
  agentTimeoutSecs: { min: 0, max: 7 * 24 * 3_600, integer: false, unit: 'seconds' },
  visits: { min: 1, max: PLAN_LIMITS.visits, integer: true, unit: 'visits' },
  attempts: { min: 1, max: 100, integer: true, unit: 'total attempts' },
  backoffSecs: { min: 0, max: 24 * 3_600, integer: false, unit: 'seconds' },
  backoff: { min: 1, max: 100, integer: false, unit: 'times' },
  outputMib: { min: 1, max: 16 * 1024, integer: true, unit: 'MiB' },
  memoryMib: { min: 128, max: 65_536, integer: true, unit: 'MiB' },
  vcpus: { min: 1, max: 64, integer: true, unit: 'virtual CPUs' },
  /** Items of a parameter's list. */
  listItems: { min: 0, max: 10_000, integer: true, unit: 'items' },
  exitCode: { min: 0, max: 255, integer: true, unit: 'exit code' },
  costUsd: { min: 0.0001, max: 1_000_000, integer: false, unit: 'US dollars' },
  /** The price of a million tokens. */
  priceUsd: { min: 0, max: 100_000, integer: false, unit: 'US dollars' },
  tokens: { min: 1, max: 1_000_000_000_000, integer: true, unit: 'tokens' },
  turns: { min: 1, max: 100_000, integer: true, unit: 'calls of the model' },
  /** The longest time for which a keeper retains a VM. */
  keepSecs: { min: 1, max: 3_600, integer: false, unit: 'seconds' },
  diskMib: { min: 64, max: 1_048_576, integer: true, unit: 'MiB' },
  /** The time for which the sender of a webhook waits. */
  respondSecs: { min: 1, max: 60, integer: false, unit: 'seconds' },
  successStatus: { min: 200, max: 299, integer: true, unit: 'HTTP status' },
  batchSize: { min: 2, max: 1_000, integer: true, unit: 'deliveries' },
  /** Deliveries of one message of a queue. */
  maxDeliver: { min: 1, max: 1_000, integer: true, unit: 'deliveries of a message' },
  rateLimit: { min: 1, max: 10_000, integer: true, unit: 'runs' },
} as const satisfies Record<string, NumberRange>;

/** Types of parameters: a run may set `text` to any text; `list` is JSON. */
export const PARAM_TYPES = ['text', 'number', 'boolean', 'list', 'choice'] as const;

/** The range of a text with units, such as `90s` or `2d`. */
export interface DurationRange {
  readonly minMs: number;
  readonly maxMs: number;
}

export const DURATIONS = {
  /** Longer than a forgotten run is of use. */
  approval: { minMs: 1_000, maxMs: 366 * 24 * 3_600_000 },
  /** The same as `PLAN_LIMITS.waitMs`. */
  wait: { minMs: 1_000, maxMs: 400 * 24 * 3_600_000 },
  dedupe: { minMs: 1_000, maxMs: 30 * 24 * 3_600_000 },
  /** Payloads are kept for 7 days, so no delivery waits longer for others. */
  debounce: { minMs: 100, maxMs: 24 * 3_600_000 },
  batch: { minMs: 100, maxMs: 24 * 3_600_000 },
  rate: { minMs: 1_000, maxMs: 24 * 3_600_000 },
  interval: { minMs: 10_000, maxMs: 366 * 24 * 3_600_000 },
  jitter: { minMs: 0, maxMs: 24 * 3_600_000 },
  /** The pause between two looks at a source. */
  look: { minMs: 1_000, maxMs: 3_600_000 },
  late: { minMs: 1_000, maxMs: 366 * 24 * 3_600_000 },
  catchupWindow: { minMs: 60_000, maxMs: 366 * 24 * 3_600_000 },
} as const satisfies Record<string, DurationRange>;

/** The number of plan units in one unit of a spec. */
export const SCALES = { msPerSecond: 1_000, bytesPerMib: 1024 * 1024 } as const;

/** Converts a number of a spec to a plan's unit. */
export function applyScale(value: number, scale: number | undefined): number {
  return scale === undefined ? value : Math.round(value * scale);
}
