/** The kills of a round against the HTTP API: chosen from a seed and the number of the round before it begins. */
import type { Random } from '../random.ts';

export const TARGETS = ['service', 'postgres', 'supervisor'] as const;
export type Target = (typeof TARGETS)[number];

/** Files and folders of a run, in the order in which its start makes them. */
export const STEPS = ['uploads', 'records/request.json', 'records/client.json', 'records/admission.json'] as const;
export type Step = (typeof STEPS)[number];

export interface Strike {
  readonly target: Target;
  /** The step of the first start that gets so far; null: the moment is a time. */
  readonly step: Step | null;
  /** After the starts are sent, or after the readers are connected. With a step: the latest moment. */
  readonly atMs: number;
}

export interface RoundPlan {
  /** Falls while five runs start. */
  readonly whileStarting: Strike;
  /** Fall while readers follow the runs. */
  readonly whileFollowing: readonly Strike[];
}

/** The first kills of five rounds in a row: they hit each target in both phases. */
const WHILE_STARTING: readonly Target[] = ['service', 'supervisor', 'service', 'postgres', 'service'];
const WHILE_FOLLOWING: readonly Target[] = ['supervisor', 'service', 'postgres', 'service', 'postgres'];
const START_SPAN_MS = 500;
const FOLLOW_SPAN_MS = 1_500;
const STEP_LIMIT_MS = 5_000;

export function planRound(round: number, random: Random): RoundPlan {
  const at = round % WHILE_STARTING.length;
  const hasStep = random.below(4) > 0;
  const further = Array.from({ length: random.below(3) }, () => random.pick(['service', 'postgres'] as const));
  return {
    whileStarting: {
      target: WHILE_STARTING[at]!,
      step: hasStep ? random.pick(STEPS) : null,
      atMs: hasStep ? STEP_LIMIT_MS : random.below(START_SPAN_MS),
    },
    whileFollowing: [WHILE_FOLLOWING[at]!, ...further].map((target) => ({
      target,
      step: null,
      atMs: random.below(FOLLOW_SPAN_MS),
    })),
  };
}

export function describeStrike({ target, step, atMs }: Strike): string {
  return `kill ${target} ${step === null ? `after ${atMs} ms` : `at ${step}`}`;
}
