/** The exports of the workflow bundle: each name is a workflow type. */
export { voidboxRun } from './run/run.ts';
export { voidboxItems } from './items/items.ts';
export { sendScheduledTime as voidboxSchedule } from './schedule/schedule.ts';
export { voidboxSession } from './session/session.ts';
