/** The Temporal Schedule of a trigger: its id, its note, and its other options. */
import type { ScheduleOptions, ScheduleUpdateOptions } from '@temporalio/client';
import { findCatchupMs } from '../../domain/delivery/scheduled.ts';
import type { ScheduleSource } from '../../domain/delivery/trigger.ts';
import { toCanonicalJson } from '../../domain/units/canonical-json.ts';
import { RUN_TASK_QUEUE, SCHEDULE_WORKFLOW_TYPE } from '../../workflows/messages.ts';
import { createHash } from 'node:crypto';

/** A schedule as the rows of the database want it. */
export interface WantedSchedule {
  /** Names the database. */
  readonly owner: string;
  readonly deployment: string;
  readonly trigger: string;
  readonly source: ScheduleSource;
  readonly isPaused: boolean;
  /** Why it is paused; empty if it is not. */
  readonly note: string;
}

/** The most characters of a person's note that the server of Temporal gets. */
const NOTE_CHARACTERS = 500;
const HASH_DIGITS = 12;

/** All schedules of a database, or of one of its deployments, have ids with this beginning. */
export function nameSchedules(owner: string, deployment?: string): string {
  return `voidbox/${owner}/${deployment === undefined ? '' : `${encodeURIComponent(deployment)}/`}`;
}

export function nameSchedule({
  owner,
  deployment,
  trigger,
}: Pick<WantedSchedule, 'owner' | 'deployment' | 'trigger'>): string {
  return `${nameSchedules(owner, deployment)}${encodeURIComponent(trigger)}`;
}

/** The note contains a hash of all options, because a list of schedules does not contain all of them. */
export function writeNote(wanted: WantedSchedule): string {
  const text = toCanonicalJson({ ...wanted, options: describeAction(wanted), catchupMs: findCatchupMs(wanted.source) });
  const hash = createHash('sha256').update(text).digest('hex').slice(0, HASH_DIGITS);
  const note = [...wanted.note].slice(0, NOTE_CHARACTERS).join('');
  return note === '' ? `voidbox ${hash}` : `${note} (voidbox ${hash})`;
}

export type ScheduleOptionsOfTrigger = Required<Pick<ScheduleOptions, 'spec' | 'policies' | 'state' | 'memo'>> & {
  readonly action: ScheduleUpdateOptions['action'];
};

export function describeSchedule(wanted: WantedSchedule): ScheduleOptionsOfTrigger {
  const { source, owner, deployment, trigger, isPaused } = wanted;
  return {
    spec:
      source.everyMs === null
        ? { cronExpressions: [...source.cron], timezone: source.timezone }
        : { intervals: [{ every: source.everyMs }] },
    action: describeAction(wanted),
    policies: {
      // The rules for runs that overlap are decided with the delivery.
      overlap: 'ALLOW_ALL',
      catchupWindow: findCatchupMs(source),
    },
    state: { paused: isPaused, note: writeNote(wanted) },
    memo: { voidboxOwner: owner, voidboxDeployment: deployment, voidboxTrigger: trigger },
  };
}

function describeAction(wanted: WantedSchedule): ScheduleUpdateOptions['action'] & { readonly workflowId: string } {
  const { owner, deployment, trigger } = wanted;
  return {
    type: 'startWorkflow',
    workflowType: SCHEDULE_WORKFLOW_TYPE,
    // The server adds the time, so that a time has one open workflow.
    workflowId: nameSchedule(wanted),
    taskQueue: RUN_TASK_QUEUE,
    args: [{ owner, deployment, trigger }],
  };
}
