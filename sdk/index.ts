/** The package's public exports: authors import these from `voidbox`. */
export type { Diagnostic } from '../domain/errors/diagnostic.ts';
export type { Plan } from '../domain/plan/plan.ts';
export {
  defineWorkflow,
  definePipeline,
  type Definition,
  type PipelineOptions,
  type RunArguments,
  type WorkflowOptions,
} from './define.ts';
export type { AgentSkill, Llm } from './stages/agent-settings.ts';
export { agentBox, type AgentBoxOptions, agentStep, type AgentStepOptions } from './stages/agent.ts';
export { approval, type ApprovalOptions, type Field } from './stages/approval.ts';
export { fanOut, loop } from './stages/box-groups.ts';
export { box, type BoxOptions, type Command, step, type StepOptions } from './stages/command.ts';
export type { Input, Mock, OutputSchema, Retry, StageDefaults, Workspace } from './stages/common-options.ts';
export { files, items, type Items, type ItemsRef } from './stages/items.ts';
export { part, part as uses, type PartOptions } from './stages/part.ts';
export type { Mount, SandboxOptions } from './stages/sandbox.ts';
export { skillBox, type SkillBoxOptions, skillStep, type SkillStepOptions } from './stages/skill.ts';
export type { Approval, Box, FanOut, Loop, LoopOptions, OutputRef, Outputs, Part, Step, Wait } from './stages/stage.ts';
export { type Env, expression, fromHost, param, type Param, type ParamType, type ParamValue } from './stages/values.ts';
export { wait, type WaitOptions } from './stages/wait.ts';
export type { ReceiverOptions } from './notify.ts';
export type {
  FolderOptions,
  HmacOptions,
  OutboxOptions,
  ScheduleOptions,
  TriggerOptions,
  WebhookOptions,
} from './triggers.ts';
export { type ChainOptions, Pipeline } from './pipeline.ts';
export type { ItemResult, ItemResults, Merged, Params, RunParams } from './results.ts';
export { RunError, type RunOptions, type RunResult } from './run.ts';
export type { RunEvent, RunEventBody } from '../domain/run/event.ts';
export { type Each, forEach, type ForEachOptions, when } from './stage-modifiers.ts';
