/**
 * The return value of `.build()`: a skill whose type parameters are erased. Authors make it with the builders of the
 * SDK. The engine reads its JSON-safe part (facts.ts), and a driver calls its callbacks.
 */
import type { AnySchema } from './schema.ts';

/**
 * A callback whose context the SDK's builder has typed for its author. It may accept a narrower context than the driver
 * promises here.
 */
export type Callback<Context, Result> = { bivariant(context: Context): Result }['bivariant'];

/** The host that drives the skill, and its abilities. */
export interface Handshake {
  /** A name in the host registry, or `generic`. */
  host: string;
  toolsAvailable: string[];
  isSubagent: boolean;
}

export interface ReferenceLoader {
  /** Returns the text of a file below `references/`. */
  load(filename: string): string;
  /** Returns the full path of a file that the skill ships. */
  asset(path: string): string;
}

/** One completed visit of a step. */
export interface StepResult<Response = unknown, Result = unknown> {
  readonly step: string;
  readonly response: Response;
  readonly actionResult?: unknown;
  /** `save().step`, else the action's result, else the response. */
  readonly result: Result;
}

/** `store.steps`: the last result by step name, and the whole history. */
export interface StepsAccessor {
  all(step: string): readonly unknown[];
  ran(step: string): boolean;
  readonly history: readonly StepResult[];
  readonly [step: string]: unknown;
}

/** The view of a session for callbacks. Sub-stores are properties next to `steps`, by their names. */
export interface StoreAccessor {
  readonly steps: StepsAccessor;
  readonly [store: string]: unknown;
}

// Prompts

export interface AskUserOption {
  value: string;
  label: string;
  description?: string;
  preview?: string;
}
export interface AskStructuredConfig {
  readonly kind: 'askUser';
  readonly type: 'structured';
  question: string;
  header?: string;
  options: AskUserOption[];
  multiSelect?: boolean;
}
export interface AskOpenConfig {
  readonly kind: 'askUser';
  readonly type: 'open';
  question: string;
}
export type AskUserConfig = AskStructuredConfig | AskOpenConfig;
export interface ConfirmConfig {
  readonly kind: 'confirm';
  message: string;
  destructive?: boolean;
  defaultAnswer?: 'yes' | 'no';
}
export interface PlanConfig {
  readonly kind: 'plan';
  summary: string;
  steps: string[];
}
export interface ChecklistConfig {
  readonly kind: 'checklist';
  create: { title: string; status: string }[];
}
export interface SubagentConfig {
  readonly kind: 'subagent';
  prompt: string;
  output: AnySchema;
  allowRecursion?: boolean;
}
export interface SurveyQuestion {
  question: string;
  header?: string;
  options: AskUserOption[];
  multiSelect?: boolean;
}
export interface SurveyConfig {
  readonly kind: 'survey';
  readonly questions: SurveyQuestion[];
}
export type PrimitiveConfig =
  | AskUserConfig
  | ConfirmConfig
  | PlanConfig
  | ChecklistConfig
  | SubagentConfig
  | SurveyConfig;

export interface SystemSegment {
  readonly kind: 'system';
  readonly text: string;
}
export interface ActSegment {
  readonly kind: 'act';
  readonly primitive: PrimitiveConfig;
}
export interface ViewSegment {
  readonly kind: 'view';
  readonly label: string | undefined;
  readonly text: string;
}
export type PromptSegment = SystemSegment | ActSegment | ViewSegment;
export type PromptPiece = string | PromptSegment;
export type PromptReturn = PromptPiece | PromptPiece[];

/** Functions that make `ActSegment`s, one for each primitive; the SDK types each of them. */
export interface ActBuilder {
  askUser(
    input: ({ type: 'structured' } & Omit<AskStructuredConfig, 'kind' | 'type'>) | { type: 'open'; question: string },
  ): ActSegment;
  confirm(input: Omit<ConfirmConfig, 'kind'>): ActSegment;
  plan(input: Omit<PlanConfig, 'kind'>): ActSegment;
  checklist(input: Omit<ChecklistConfig, 'kind'>): ActSegment;
  subagent(input: Omit<SubagentConfig, 'kind'>): ActSegment;
  survey(questions: SurveyQuestion[]): ActSegment;
}
export interface SystemBuilder {
  (strings: TemplateStringsArray, ...values: unknown[]): SystemSegment;
  (text: string): SystemSegment;
}

// Contexts of callbacks

export interface PromptContext {
  readonly store: StoreAccessor;
  readonly params: unknown;
  readonly refs: ReferenceLoader;
  /** Completed visits of this step: 0 the first time. */
  readonly attempts: number;
  readonly host: Handshake;
  readonly act: ActBuilder;
  readonly system: SystemBuilder;
}
export interface TransitionContext {
  readonly response: unknown;
  /** Completed visits of this step, this one included: 1 the first time. */
  readonly attempts: number;
  readonly actionResult: unknown;
  readonly params: unknown;
  readonly store: StoreAccessor;
}
export interface SaveContext {
  readonly response: unknown;
  readonly actionResult: unknown;
  readonly store: StoreAccessor;
  readonly params: unknown;
}
/** The part of an AbortSignal that code here reads; drivers pass the real one. */
export interface Signal {
  readonly aborted: boolean;
}
/** The call of an action, as the action sees it. */
export interface ActionCall {
  /** Fires when the action's time is up or the session is cancelled. */
  readonly signal: Signal;
  /** `<session>/<turn>/<step>`: the same for every attempt of one visit, different for every other visit. */
  readonly idempotencyKey: string;
  /** From 1. */
  readonly attempt: number;
}
export interface ActionContext extends ActionCall {
  readonly response: unknown;
  readonly store: StoreAccessor;
  readonly params: unknown;
}

// Steps

/** An action with a name and schemas, which several steps can use. */
export interface ActionDefinition {
  readonly kind: 'action';
  readonly name: string;
  readonly input: AnySchema;
  readonly output: AnySchema;
  readonly run: Callback<{ readonly input: unknown } & ActionCall, unknown>;
}
export interface ActionUse {
  readonly run: ActionDefinition;
  readonly mapInput?: Callback<
    { readonly response: unknown; readonly store: StoreAccessor; readonly params: unknown },
    unknown
  >;
}
export interface Terminal {
  readonly terminal: true;
}
/** A step's name, `self`, `subskill:<name>` or `topic:<name>`. */
export type NextTarget = string;
export interface NextBranch {
  readonly to: NextTarget;
  readonly when?: Callback<TransitionContext, boolean>;
}
/** `step` is the visit's result; every other key is written to the sub-store of that name. */
export type SaveResult = { readonly step?: unknown; readonly [store: string]: unknown } | null | undefined | void;

/** How an action is retried that throws or exceeds its time limit. */
export interface ActionRetry {
  /** Number of attempts, including the first. */
  readonly maxAttempts: number;
  /** Delay before the second attempt; default 1,000. */
  readonly backoffMs?: number;
  /** Factor between each delay and the next; default 2. */
  readonly backoffFactor?: number;
  /** The longest delay; default 60,000. */
  readonly maxBackoffMs?: number;
}
/**
 * Every branch starts at its step and ends where it reaches `join`. The join step runs after all branches have ended.
 */
export interface ParallelSteps {
  readonly branches: readonly string[];
  readonly join: string;
}
/** The step is passed when the time is over. It has no prompt. */
export interface WaitFor {
  readonly durationMs: number | Callback<TransitionContext, number>;
}
/** A person answers this step's prompt, before the deadline. */
export interface HumanInput {
  readonly deadlineMs?: number;
  /** The next step if the deadline passes without an answer; required with `deadlineMs`. */
  readonly onExpiry?: NextTarget;
  /** The person to ask, for display. */
  readonly assignee?: string;
}

export interface StepConfig {
  /** Absent: the step is passed without a question. */
  readonly prompt?: PromptReturn | Callback<PromptContext, PromptReturn>;
  readonly response?: AnySchema;
  /** May be absent only with `parallel`. */
  readonly next?: NextTarget | Callback<TransitionContext, NextTarget> | readonly NextBranch[] | Terminal;
  readonly action?: Callback<ActionContext, unknown> | ActionUse;
  readonly save?: Callback<SaveContext, SaveResult>;
  /** How often this step may be visited; 10 for members of a cycle that do not set it. */
  readonly maxVisits?: number;
  /** The target instead of one more visit of this step. */
  readonly onMaxVisits?: NextTarget;
  /** How many answers in one visit may fail the schema before the session fails; default 10. */
  readonly maxInvalid?: number;
  readonly retry?: ActionRetry;
  /** Time limit of each attempt of the action. */
  readonly timeoutMs?: number;
  readonly parallel?: ParallelSteps;
  readonly wait?: WaitFor;
  readonly human?: HumanInput;
  /**
   * Runs a registered sub-skill and returns: its final output is this step's `actionResult`. The step has no prompt and
   * no action.
   */
  readonly call?: string;
}
export interface StepDefinition {
  readonly kind: 'step';
  readonly config: StepConfig;
  extend(overrides: Partial<StepConfig>): StepDefinition;
}

// Skills

export interface ObserverMap {
  readonly onStepStart?: Callback<StepStartEvent, void | Promise<void>>;
  readonly onStepComplete?: Callback<StepCompleteEvent, void | Promise<void>>;
  readonly onStepValidationFailed?: Callback<StepValidationFailedEvent, void | Promise<void>>;
  readonly onTransition?: Callback<TransitionEvent, void | Promise<void>>;
  readonly onSkillComplete?: Callback<SkillCompleteEvent, void | Promise<void>>;
}
export interface StepStartEvent {
  readonly step: string;
  readonly params: unknown;
}
export interface StepCompleteEvent {
  readonly step: string;
  readonly response: unknown;
  readonly durationMs: number;
}
export interface StepValidationFailedEvent {
  readonly step: string;
  readonly raw: unknown;
  readonly error: string;
  /** The number of the answer in this visit, from 1. */
  readonly attempt: number;
}
export interface TransitionEvent {
  readonly from: string;
  /** `__terminal__` at the end. */
  readonly to: string;
  readonly reason: 'next' | 'redirect' | 'terminal';
}
export interface SkillCompleteEvent {
  readonly path: readonly string[];
  readonly finalOutput: unknown;
  readonly durationMs: number;
}
export type ObserverName = keyof ObserverMap;

export interface TopicConfig {
  readonly label: string;
  readonly content: Callback<{ readonly refs: ReferenceLoader }, string>;
}
export interface SubskillRegistration {
  readonly definition: SkillDefinition;
  /** Makes the sub-skill's params from the response of the step that leads to it; absent: `{}`. */
  paramsMap?(response: unknown, store: StoreAccessor): unknown;
}
/** Lets sessions that an earlier version of the skill began continue with this version. */
export interface MigrationConfig {
  /**
   * The version that began the session. The present version may be named too, which declares that its own earlier code
   * is compatible.
   */
  readonly from: string;
  /** Steps that have other names in this version, by their old names. */
  readonly renamedSteps?: Readonly<Record<string, string>>;
  /** Returns the sub-stores in the form that this version expects. */
  readonly stores?: (stores: Readonly<Record<string, unknown>>) => Record<string, unknown>;
}
export interface PackageConfig {
  name?: string;
  description?: string;
  license?: string;
  files?: string[];
  [key: string]: unknown;
}

/** The frontmatter of SKILL.md, for a skill or a reference. */
export interface Frontmatter {
  readonly package?: PackageConfig | undefined;
  readonly argumentHint?: string | undefined;
  readonly arguments?: string | readonly string[] | undefined;
  readonly allowedTools?: string | readonly string[] | undefined;
  readonly paths?: string | readonly string[] | undefined;
  readonly context?: string | undefined;
  readonly license?: string | undefined;
  readonly compatibility?: string | undefined;
  readonly agent?: string | undefined;
  readonly model?: string | undefined;
  readonly effort?: string | undefined;
  readonly disableModelInvocation?: boolean | undefined;
  readonly userInvocable?: boolean | undefined;
}

export interface SkillDefinition extends Frontmatter {
  readonly kind: 'skill';
  readonly name: string;
  /** `0.0.0` if the author sets no version. */
  readonly version: string;
  /** Whether the build reads the version from the nearest package.json. */
  readonly resolveVersion: boolean;
  readonly description?: string | undefined;
  readonly triggers?: readonly string[] | undefined;
  readonly entry: string;
  /** Text before the preamble. */
  readonly system?: string | undefined;
  readonly params?: AnySchema | undefined;
  readonly finalOutput?: AnySchema | undefined;
  readonly steps: Readonly<Record<string, StepDefinition>>;
  readonly stores?: Readonly<Record<string, AnySchema>>;
  readonly subskills?: Readonly<Record<string, SubskillRegistration>>;
  readonly topics?: Readonly<Record<string, TopicConfig>>;
  readonly observers?: ObserverMap | undefined;
  readonly migrations?: readonly MigrationConfig[] | undefined;
  /** Names of environment variables that its code reads, in addition to those that every program needs. */
  readonly env?: readonly string[] | undefined;
  /** The text of SKILL.md's body, instead of the generated one. */
  readonly skillMd?: string | ((skill: SkillDefinition) => string) | undefined;
}
export interface ModuleDefinition {
  readonly kind: 'module';
  readonly name: string;
  readonly entry: string;
  readonly steps: Readonly<Record<string, StepDefinition>>;
}
export interface ReferenceDefinition extends Frontmatter {
  readonly kind: 'reference';
  readonly name: string;
  readonly version: string;
  readonly resolveVersion: boolean;
  readonly description: string;
  readonly topics: Readonly<Record<string, TopicConfig>>;
}
export type Buildable = SkillDefinition | ReferenceDefinition;

/** The target in a module's steps that the program which registers the module replaces with its own. */
export const PARENT_TARGET = '__parent__';
/** The name of the end in `onTransition`. */
export const TERMINAL_NAME = '__terminal__';
/** Names of sub-stores that would hide the history. */
export const RESERVED_STORES: ReadonlySet<string> = new Set(['steps', 'step']);
