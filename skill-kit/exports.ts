/** Everything that `voidbox/skill-kit` exports, except `z` and `type`, which index.ts and index.bundled.ts add each in its own way. */
import type { Terminal } from '../domain/step-machine/definition.ts';

export { act } from './author/act.ts';
export { fragment, type Fragment, prompt, resolveTemplate } from './prompt/prompt-text.ts';
export { checkSkill } from './lint/check-skill.ts';
export type { LintDiagnostic } from './lint/diagnostic.ts';
export { isDone, isError, isPrompt, isRedirect } from './author/guards.ts';
export { module, ModuleBuilder } from './author/module-builder.ts';
export {
  reference,
  ReferenceBuilder,
  type ReferenceBuilderConfig,
  type VersionStrategy,
} from './author/reference-builder.ts';
export { render, type TableOptions } from './prompt/render.ts';
export { skill, SkillBuilder, type SkillBuilderConfig } from './author/skill-builder.ts';
export { action, step } from './author/step.ts';
export { system, view } from './prompt/segments.ts';

/** As `next`: the skill ends here. */
export const terminal: Terminal = Object.freeze({ terminal: true });

export type {
  ActionCallContext,
  ActionConfig,
  ActionContext,
  ActionDefinition,
  InferActionResult,
  PromptContext,
  PromptFn,
  SaveContext,
  SaveReturn,
  StepDefinition,
  TransitionContext,
  TransitionFn,
} from './author/author-types.ts';
export type { DeepPartial, DeepReadonly, InferStores } from './author/store-types.ts';
export type {
  ActionRetry,
  ActSegment,
  AskOpenConfig,
  AskStructuredConfig,
  AskUserConfig,
  AskUserOption,
  Buildable,
  ChecklistConfig,
  ConfirmConfig,
  Handshake,
  HumanInput,
  MigrationConfig,
  ModuleDefinition,
  NextBranch,
  NextTarget,
  ObserverMap,
  PackageConfig,
  ParallelSteps,
  PlanConfig,
  PrimitiveConfig,
  PromptPiece,
  PromptReturn,
  PromptSegment,
  ReferenceDefinition,
  ReferenceLoader,
  SkillDefinition,
  StepConfig,
  StepResult,
  StoreAccessor,
  SubagentConfig,
  SubskillRegistration,
  SurveyConfig,
  SurveyQuestion,
  SystemSegment,
  Terminal,
  TopicConfig,
  ViewSegment,
  WaitFor,
} from '../domain/step-machine/definition.ts';
export type {
  DoneResult,
  PromptResult,
  RedirectResult,
  SessionResult,
  // The former name, so that skills that import it still compile.
  SessionResult as CliResult,
  ValidationErrorResult,
  WaitingResult,
} from '../domain/step-machine/result.ts';
export type { AnySchema, InferInput, InferOutput, StandardSchema } from '../domain/step-machine/schema.ts';
export type {
  SessionHeader,
  SessionLine,
  SessionOutputLine,
  SessionOutputMode,
  SessionPointer,
  SessionResultLine,
} from './cli/session-lines.ts';
export type { ModelAdapter, SkillRunResult } from './test.ts';
