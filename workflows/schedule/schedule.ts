/** The workflow of one time of a schedule: it hands the time to the service, which knows the deployment. */
import { proxyActivities, workflowInfo } from '@temporalio/workflow';
import { defineSearchAttributeKey } from '@temporalio/common';
import type { ScheduleActivities, ScheduleRequest } from '../../activities/contract-schedule.ts';
import { SCHEDULE_ACTIVITY_OPTIONS } from '../activity-options.ts';
import { workflowFailure } from '../failure.ts';

/** The server sets it for workflows that a schedule starts: the time that the schedule names. */
const SCHEDULED_AT = defineSearchAttributeKey('TemporalScheduledStartTime', 'DATETIME');

const { sendTime } = proxyActivities<ScheduleActivities>(SCHEDULE_ACTIVITY_OPTIONS);

export async function sendScheduledTime({ owner, deployment, trigger }: ScheduleRequest): Promise<void> {
  const { typedSearchAttributes, firstExecutionRunId, startTime } = workflowInfo();
  const at = typedSearchAttributes.get(SCHEDULED_AT);
  if (at === undefined) throw workflowFailure('call/refused', 'no schedule has started this workflow');
  await sendTime({
    owner,
    deployment,
    trigger,
    atMs: at.getTime(),
    firedAtMs: startTime.getTime(),
    firing: firstExecutionRunId,
  });
}
