/**
 * Which behaviour of a workflow a plan needs. The workflow of an earlier behaviour would execute another plan, or wait without an end.
 * @see docs/adr/0012-calls-name-what-was-admitted.md
 */
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Plan, StagePlan } from '../../domain/plan/plan.ts';
import { BEHAVIOUR } from '../../domain/run/behaviour.ts';
import { quote } from '../../domain/units/quote.ts';

export interface Need {
  readonly behaviour: number;
  /** Follows the name of the stage in the message. */
  readonly what: string;
  readonly isNeeded: (stage: StagePlan) => boolean;
}

/** A stage that only a later behaviour executes gets a row together with the behaviour. */
const NEEDS: readonly Need[] = [];

/**
 * The behaviour of a run whose workflow knows `newest`: the workflow may be of another build than this worker.
 * @throws CodedError `admit/invalid`
 */
export function behaviourFor(newest: unknown): number {
  if (typeof newest === 'number' && Number.isSafeInteger(newest) && newest >= 1) return Math.min(newest, BEHAVIOUR);
  throw new CodedError(
    'admit/invalid',
    `the workflow names ${quote(newest)} as its behaviour, not a whole number from 1: start runs as workflow type voidboxRun`,
  );
}

/** @throws CodedError `admit/invalid` */
export function refuseNewer({ stages }: Plan, behaviour: number, needs = NEEDS): void {
  for (const { behaviour: needed, what, isNeeded } of needs) {
    const stage = behaviour >= needed ? undefined : stages.find(isNeeded);
    if (stage !== undefined)
      throw new CodedError(
        'admit/invalid',
        `stage ${stage.id} ${what}, which the workflow's build of Voidbox does not have: update every worker of the queue`,
      );
  }
}
