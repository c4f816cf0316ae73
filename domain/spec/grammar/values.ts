/** What values may be: words, patterns and ranges, for the tables of the grammar and for the check of plans from outside. */

/** Stages that run at the same time where the spec says nothing. */
export const DEFAULT_MAX_PARALLEL = 4;

/** Of runs, stages, outputs and parameters; `PLAN_LIMITS.nameLength` bounds them. */
export const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

export const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

export const VARIABLE_LIMITS = {
  nameLength: 256,
  /** In one mapping; each stage gets its own copy of them. */
  count: 256,
} as const;

export interface NumberRange {
  readonly min: number;
  readonly max: number;
  readonly integer: boolean;
  readonly unit: string;
}

/** In the units of a spec. A plan has the same ranges in its own units: `scaled`. */
export const RANGES = {
  maxParallel: { min: 1, max: 1_000, integer: true, unit: 'stages' },
  timeoutSecs: { min: 0.001, max: 7 * 24 * 3_600, integer: false, unit: 'seconds' },
  attempts: { min: 1, max: 100, integer: true, unit: 'attempts in all' },
  backoffSecs: { min: 0, max: 24 * 3_600, integer: false, unit: 'seconds' },
  outputMib: { min: 1, max: 16 * 1024, integer: true, unit: 'MiB' },
  memoryMib: { min: 128, max: 65_536, integer: true, unit: 'MiB' },
  vcpus: { min: 1, max: 64, integer: true, unit: 'virtual CPUs' },
  diskMib: { min: 64, max: 1_048_576, integer: true, unit: 'MiB' },
} as const satisfies Record<string, NumberRange>;

/** What one unit of a spec is in a plan. */
export const SCALES = { msPerSecond: 1_000, bytesPerMib: 1024 * 1024 } as const;

/** A number of a spec in a plan's unit. */
export function scaled(value: number, scale: number | undefined): number {
  return scale === undefined ? value : Math.round(value * scale);
}
