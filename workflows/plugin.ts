/**
 * The exports of `voidbox/temporal/workflows`, for workflows of other projects. Their file has to export `voidboxRun`
 * and `voidboxItems` (for plans with `for_each`) too: a worker has one bundle, and can start only the workflows that
 * the bundle exports.
 */
export type { CommandMount, CommandOutcome, CommandRequest, CommandSandbox } from '../activities/contract-command.ts';
export type { DataRef, Plan, RedactedData } from '../domain/plan/plan.ts';
export type { RunOutcome } from '../domain/run/event.ts';
export type { StageFailure } from '../domain/run/stage-result.ts';
export {
  executePipeline,
  type ExecuteOptions,
  type PipelineFailure,
  pipelineFailure,
  type PipelineResult,
  type PipelineSource,
} from './execute-pipeline.ts';
export { runCommand, type RunCommandOptions } from './run-command.ts';
export { voidboxItems } from './items/items.ts';
export { voidboxRun } from './run/run.ts';
