/** Whether a Temporal Schedule has the options of a trigger that a list of schedules does not contain. */
import type { ScheduleDescription } from '@temporalio/client';
import { toCanonicalJson } from '../../domain/units/canonical-json.ts';
import { describeSchedule, type WantedSchedule } from './schedule-options.ts';

export type DescribedOptions = Pick<ScheduleDescription, 'action' | 'policies'> & {
  readonly state: Pick<ScheduleDescription['state'], 'remainingActions'>;
};

export function hasSameOptions({ action, policies, state }: DescribedOptions, wanted: WantedSchedule): boolean {
  const { action: wantedAction, policies: wantedPolicies } = describeSchedule(wanted);
  const { type, workflowType, workflowId, taskQueue, args } = action;
  return (
    toCanonicalJson({ type, workflowType, workflowId, taskQueue, args }) === toCanonicalJson(wantedAction) &&
    policies.overlap === wantedPolicies.overlap &&
    policies.catchupWindow === wantedPolicies.catchupWindow &&
    !policies.pauseOnFailure &&
    // A schedule with a limit ends at some time.
    state.remainingActions === undefined
  );
}
