/** The kills of a round against triggers: chosen from a seed and the number of the round before it begins. */
import type { Random } from '../random.ts';

export const TARGETS = ['service', 'postgres', 'temporal', 'worker', 'supervisor', 'nats'] as const;
export type Target = (typeof TARGETS)[number];

/** A run has written its last event. */
export const RUN_END = 'the end of a run';
/** Files and folders of a run of a delivery, in the order in which its start makes them, and its end. */
export const STEPS = [
  'records/client.json',
  'records/source.json',
  'records/admission.json',
  'events.jsonl',
  RUN_END,
] as const;
export type Step = (typeof STEPS)[number];

export interface Strike {
  readonly target: Target;
  /** The step of the first new run that gets so far; null: the moment is a time. */
  readonly step: Step | null;
  /** After the first event is sent. With a step: the latest moment. */
  readonly atMs: number;
}

const SPAN_MS = 2_500;
const STEP_LIMIT_MS = 4_000;

/**
 * The first kills of as many rounds in a row as there are targets hit each of them. Only one falls on the stack as a
 * whole.
 * @param hasQueue  whether the machine has NATS
 */
export function planStrikes(round: number, random: Random, hasQueue: boolean): readonly Strike[] {
  const targets = TARGETS.filter((target) => hasQueue || target !== 'nats');
  const first = targets[round % targets.length]!;
  const others = targets.filter((target) => target !== 'supervisor');
  const further = Array.from({ length: random.below(3) }, () => random.pick(others));
  return [first, ...further].map((target, index) => {
    const hasStep = random.below(2) > 0;
    const step = hasStep ? random.pick(STEPS) : null;
    const atMs = random.below(SPAN_MS);
    // The worker of a run that others follow dies at its end in each storm.
    const planned = index === 0 && target === 'worker' ? RUN_END : step;
    return { target, step: planned, atMs: planned === null ? atMs : STEP_LIMIT_MS };
  });
}

export function describeStrike({ target, step, atMs }: Strike): string {
  return `kill ${target} ${step === null ? `after ${atMs} ms` : `at ${step}`}`;
}
