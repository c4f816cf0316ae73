/** Which behaviour of a workflow a plan needs. The workflow of an earlier build would carry it out as another plan, or wait without an end. */
import { CodedError } from '../domain/errors/coded-error.ts';
import { coveredStages } from '../domain/pipeline/machine-plan.ts';
import type { Plan, StagePlan } from '../domain/plan/plan.ts';
import { approvalOf, mockOf, waitOf, partOf } from '../domain/plan/work.ts';

interface Need {
  readonly behaviour: number;
  /** After the name of the stage. */
  readonly what: string;
  readonly isNeeded: (stage: StagePlan) => boolean;
}

const NEEDS: readonly Need[] = [
  { behaviour: 5, what: 'is an approval', isNeeded: ({ work }) => approvalOf(work) !== null },
  {
    behaviour: 6,
    what: 'has a `retry` with growing pauses or final failures',
    isNeeded: ({ retry: { factor, maxBackoffMs, nonRetryable } }) =>
      (factor ?? maxBackoffMs ?? nonRetryable) !== undefined,
  },
  {
    behaviour: 7,
    what: 'has `continue_on_error`',
    isNeeded: ({ continueOnError }) => continueOnError === true,
  },
  {
    behaviour: 9,
    what: 'waits',
    isNeeded: ({ work }) => waitOf(work) !== null,
  },
  {
    behaviour: 25,
    what: 'waits until a time that outputs say',
    isNeeded: ({ work }) => waitOf(work)?.until !== undefined,
  },
  {
    behaviour: 11,
    what: 'names several stages in `on_failure`',
    isNeeded: ({ anyFailure }) => anyFailure === true,
  },
  { behaviour: 12, what: 'has a condition', isNeeded: ({ when }) => when !== null },
  // The workflow of an earlier build starts nothing without a VM that is no question and no wait.
  { behaviour: 13, what: 'ends a part', isNeeded: ({ work }) => partOf(work) !== null },
  { behaviour: 13, what: 'has `for_each`', isNeeded: ({ each }) => each !== undefined },
  // As long as work without a VM is called for.
  { behaviour: 13, what: 'is mocked', isNeeded: ({ work }) => mockOf(work) !== null },
  { behaviour: 16, what: 'is a loop', isNeeded: ({ loop }) => loop !== undefined },
  {
    behaviour: 21,
    what: 'is an approval of an item',
    isNeeded: ({ of, work }) => of !== undefined && approvalOf(work) !== null,
  },
  {
    behaviour: 20,
    what: 'has `for_each` in a loop',
    isNeeded: ({ each, visits }) => each !== undefined && visits !== undefined,
  },
  {
    behaviour: 19,
    what: 'has `for_each` within an item',
    isNeeded: ({ of, each }) => of !== undefined && each !== undefined,
  },
  { behaviour: 17, what: 'is done for each item of a part', isNeeded: ({ of }) => of !== undefined },
  {
    behaviour: 18,
    what: 'ends a part whose failure is tolerated',
    isNeeded: (stage) => coveredStages(stage).length > 0,
  },
  { behaviour: 15, what: 'has `finally`', isNeeded: (stage) => stage.finally === true },
];

const TIMEOUT_BEHAVIOUR = 10;

/** @throws CodedError `admit/invalid` */
export function refuseNewer({ stages, timeoutMs }: Plan, behaviour: number): void {
  if (timeoutMs !== undefined && behaviour < TIMEOUT_BEHAVIOUR) throw tooNew('the spec limits the time of its run');
  for (const { behaviour: needed, what, isNeeded } of NEEDS) {
    const stage = behaviour >= needed ? undefined : stages.find(isNeeded);
    if (stage !== undefined) throw tooNew(`stage ${stage.id} ${what}`);
  }
}

function tooNew(what: string): CodedError {
  return new CodedError(
    'admit/invalid',
    `${what}, which the workflow's build of Voidbox does not have: update every worker of the queue`,
  );
}
