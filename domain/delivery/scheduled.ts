/** The rules for deliveries of schedules: late times, pauses, and runs that are open at the next time. */
import type { DecidedDelivery, StoreFacts } from './decision.ts';
import type { ScheduleSource, Trigger } from './trigger.ts';

/** With `catchup: none`, a time that is accepted later than this starts nothing. */
export const LATE_MS = 60_000;
/** The most deliveries of one schedule that wait for the end of a run; further ones are dropped. */
export const MOST_QUEUED = 100;

type Scheduled = Pick<DecidedDelivery, 'schedule' | 'acceptedAtMs'>;

/** Returns why a delivery is too late to start a run; null: it is not. */
export function findLateProblem({ name, source }: Trigger, { schedule, acceptedAtMs }: Scheduled): string | null {
  if (source.kind !== 'schedule' || schedule === null || schedule.isAsked) return null;
  const { catchup } = source;
  const lateMs = acceptedAtMs - schedule.atMs;
  const limitMs = findCatchupMs(source);
  const passed = `the time passed ${Math.round(lateMs / 1_000)} s before the service got it`;
  if (lateMs > limitMs)
    return catchup === 'none'
      ? `${passed}, and the schedule ${name} has \`catchup: none\``
      : `${passed}, and the \`window\` of the schedule ${name} is ${limitMs / 1_000} s`;
  if (catchup === 'last' && schedule.isOvertaken)
    return `a later time of the schedule ${name} has passed, too, and \`catchup: last\` starts the latest one`;
  return null;
}

/** Returns how late a time may be. */
export function findCatchupMs({ catchup, windowMs }: ScheduleSource): number {
  return catchup === 'none' ? LATE_MS : Math.max(windowMs, LATE_MS);
}

/** Returns why a pause drops a delivery; null: it does not. Times of a pause start nothing after it, unless asked for. */
export function dropForPause(
  { schedule, passed, deployment, trigger }: DecidedDelivery,
  { pause, schedule: facts }: StoreFacts,
): string | null {
  if (schedule === null || schedule.isAsked || passed === 'start') return null;
  if (facts?.isPaused === true) return `the schedule ${trigger} is paused`;
  // A pause holds a delivery that waited before it.
  return pause !== null && passed === 'none' ? `the deployment ${deployment} is paused` : null;
}

export type Overlap =
  | { readonly kind: 'none' }
  | { readonly kind: 'wait' }
  | { readonly kind: 'skip'; readonly message: string };

/** Decides about a delivery whose schedule may have an open run. */
export function findOverlap(
  { name, source }: Trigger,
  { schedule, passed }: Pick<DecidedDelivery, 'schedule' | 'passed'>,
  { schedule: facts }: StoreFacts,
): Overlap {
  if (source.kind !== 'schedule' || schedule === null || facts === null || passed === 'start') return { kind: 'none' };
  const { overlap } = source;
  if (overlap === 'allow') return { kind: 'none' };
  if (overlap === 'skip' && !schedule.isAsked) {
    if (!facts.hasOpenRun && facts.waiting === 0) return { kind: 'none' };
    return { kind: 'skip', message: `a run of the schedule ${name} is open, and it has \`overlap: skip\`` };
  }
  if (!facts.hasOpenRun && !facts.isBehind) return { kind: 'none' };
  if (facts.waiting < MOST_QUEUED) return { kind: 'wait' };
  return { kind: 'skip', message: `${MOST_QUEUED} deliveries of the schedule ${name} wait already` };
}

/** Whether the run of a delivery that waits replaces the oldest open one. */
export function mayCancelOldest({ source }: Trigger, { schedule }: Pick<DecidedDelivery, 'schedule'>): boolean {
  return source.kind === 'schedule' && source.overlap === 'cancel_oldest' && schedule?.isAsked === false;
}
