/** The package's public door: what authors import from `voidbox`. */
export type { Diagnostic } from '../domain/errors/diagnostic.ts';
export type { Plan } from '../domain/plan/plan.ts';
export {
  defineWorkflow,
  definePipeline,
  type Definition,
  type PipelineOptions,
  type WorkflowOptions,
} from './define.ts';
export {
  box,
  type Box,
  type BoxOptions,
  type Command,
  type Env,
  fanOut,
  type FanOut,
  fromHost,
  type Input,
  type Mount,
  type OutputRef,
  type Outputs,
  param,
  type Param,
  type SandboxOptions,
  step,
  type Step,
  type StepOptions,
} from './definition.ts';
