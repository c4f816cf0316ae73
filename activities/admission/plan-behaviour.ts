/**
 * Checks that the workflow's behaviour is new enough for the plan. A workflow with an earlier behaviour would execute a
 * different plan, or wait forever.
 * @see docs/adr/0012-calls-name-what-was-admitted.md
 */
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Plan, StagePlan } from '../../domain/plan/plan.ts';
import { approvalOf } from '../../domain/plan/work.ts';
import { BEHAVIOUR } from '../../domain/run/behaviour.ts';
import { quote } from '../../domain/units/quote.ts';

export interface Need {
  readonly behaviour: number;
  /** Follows the name of the stage in the message. */
  readonly what: string;
  readonly isNeeded: (stage: StagePlan) => boolean;
}

/** If only a later behaviour executes a kind of stage, the kind gets a row here, together with that behaviour. */
const NEEDS: readonly Need[] = [
  {
    behaviour: 4,
    what: 'asks with `self_approval: false`',
    isNeeded: ({ work }) => approvalOf(work)?.selfApproval === false,
  },
];

/**
 * Returns the behaviour of a run whose workflow knows `newest`. The workflow may be of another build than this worker.
 * @throws CodedError `admit/invalid`
 */
export function behaviourFor(newest: unknown): number {
  if (typeof newest === 'number' && Number.isSafeInteger(newest) && newest >= 1) return Math.min(newest, BEHAVIOUR);
  throw new CodedError(
    'admit/invalid',
    `the workflow names ${quote(newest)} as its behaviour, not a whole number from 1: start runs as workflow type voidboxRun`,
  );
}

/** The behaviour that resumes after the last saved step. */
const RESUMES = 2;

/**
 * Returns the plan without settings that the workflow does not carry out and that change no result: an earlier workflow
 * repeats all steps of a lost VM, whose next VM must then begin empty.
 */
export function removeNewer(plan: Plan, behaviour: number): Plan {
  if (behaviour >= RESUMES) return plan;
  return { ...plan, scopes: plan.scopes.map(({ checkpoint: _saved, ...scope }) => scope) };
}

/** The behaviour that gives some stages of a scope, and starts its first VM from a checkpoint. */
const BEGINS_WITH_GIVEN = 3;

/** An earlier workflow would run the other stages in a VM without the files of the given ones. */
export function mayBeginWithCheckpoint(behaviour: number): boolean {
  return behaviour >= BEGINS_WITH_GIVEN;
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
