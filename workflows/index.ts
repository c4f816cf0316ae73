/** What the workflow bundle exports: each name is a workflow type. */
export { voidboxRun } from './run.ts';
export { voidboxSession } from './step-session.ts';
