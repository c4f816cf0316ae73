/** The parts of a definition in TypeScript. Each becomes the same keys as in YAML, so one compiler checks both. */
import type {
  FieldType,
  IsolationLevel,
  JsonValue,
  LlmProvider,
  MountMode,
  OnLimit,
  SandboxMode,
  TimeoutAnswer,
} from '../domain/plan/plan.ts';
import type { SKILL_TYPES } from '../domain/language/grammar/agent-table.ts';
import type { PARAM_TYPES } from '../domain/language/grammar/values.ts';
import {
  AGENT_BOX_OPTIONS,
  AGENT_STEP_OPTIONS,
  APPROVAL_OPTIONS,
  BOX_OPTIONS,
  DEFAULTS_KEYS,
  FAN_OUT_OPTIONS,
  INPUT_KEYS,
  BUDGET_KEYS,
  LLM_KEYS,
  PRICE_KEYS,
  LOOP_OPTIONS,
  MOCK_KEYS,
  PART_OPTIONS,
  RETRY_KEYS,
  SKILL_AGENT_KEYS,
  SKILL_BOX_OPTIONS,
  SKILL_STEP_OPTIONS,
  STEP_OPTIONS,
  WAIT_OPTIONS,
  WORKSPACE_KEYS,
} from './known-options.ts';
import { checkList, checkOptions, durationOf, nameOf, namesOf, secondsOf, shown } from './options.ts';
import { tellPlace } from './places.ts';

export type ParamType = (typeof PARAM_TYPES)[number];

/** A stage's command: a program and its arguments, or a text for `sh -e -c`, in which `param` and `expression` are values. */
export type Command = string | readonly [program: string, ...args: (string | number)[]];

export interface SandboxOptions {
  /** `mock` runs nothing for real and must be asked for. */
  readonly mode?: SandboxMode;
  /** The weakest isolation that is accepted. Default: `microvm`. */
  readonly isolation?: IsolationLevel;
  /** 128 to 65536. Default: 512. */
  readonly memoryMib?: number;
  readonly vcpus?: number;
  /** Size of `/workspace`, `/tmp` and home together. */
  readonly diskMib?: number;
  readonly env?: Env;
  readonly mounts?: readonly Mount[];
  /** `true` is `egress: 'open'`. */
  readonly network?: boolean;
  /** The hosts that the VM reaches. Default: the hosts that its agents need, or none. */
  readonly egress?: Egress;
  /** By the name in the guest: `host:port`, of the host's network or its loopback. */
  readonly services?: Readonly<Record<string, string>>;
  /** `on-failure`: the VM of a stage that fails is left for a look. Default: `never`. */
  readonly keep?: 'never' | 'on-failure';
  /** How long it is left: an hour at most. Default: 15 minutes. */
  readonly keepMs?: number;
  /** Voidbox checks this key and the following ones, but `run` refuses them, because no backend supports them yet. */
  readonly image?: string;
  readonly guestImage?: string;
  readonly kernel?: string;
  readonly initramfs?: string;
  readonly snapshot?: string;
}

/** Hosts (`example.com`, `*.example.com`), networks, each with `:port`, and presets such as `npm` and `provider`. */
export type Egress =
  | 'none'
  | 'open'
  | { readonly allow?: readonly string[]; /** Wins over `allow`. */ readonly deny?: readonly string[] };

export interface Mount {
  /** Relative paths start from `baseDir` of `compile`. */
  readonly host: string;
  readonly guest: string;
  /** Default: `ro`. `rw` is copied in before a stage and back after its success. */
  readonly mode?: MountMode;
  /** `writable`: `rw` copies `.git` and bare repositories back, too. The next git command of the host can then run programs of the guest. */
  readonly git?: 'protected' | 'writable';
}

/** An empty text means the variable of that name on the host: write `fromHost`. */
export type Env = Readonly<Record<string, string | number | boolean>>;

/** Takes the host's variable of the same name; it is empty if the host does not set it, unless `secrets` demand it. Its value is never stored. */
export const fromHost = '';

/** Refers to a parameter, in a program, an argument or a variable: `` `hello ${param('name')}` ``. */
export function param(name: string): string {
  return `\${{ params.${name} }}`;
}

/**
 * A value that is known when the stage starts, in an argument, a variable, a message or a prompt:
 * `` `--tag=${expression('stages.build.json.tag')}` ``. With `forEach`, `expression('item')` is the item.
 * @param source  in CEL, as a condition; it names a stage or the item
 */
export function expression(source: string): string {
  return `\${{ ${source} }}`;
}

/** A list holds any JSON. */
export type ParamValue = string | number | boolean | readonly unknown[];

/** A parameter's default, or its settings; without a default each run must give a value. */
export type Param =
  | ParamValue
  | {
      /** Default: `choice` with `choices`, `number` with `min` or `max`, `list` with a list as its default, else `text`. */
      readonly type?: ParamType;
      readonly default?: ParamValue;
      readonly description?: string;
      /** Limit of a number. */
      readonly min?: number;
      readonly max?: number;
      readonly choices?: readonly (string | number)[];
    };

/** Named outputs: where each lies in the guest. */
export type Outputs = Readonly<Record<string, string>>;

/** A named output of a stage; made by `stage.output(name)`. */
export interface OutputRef {
  readonly stage: string;
  readonly output: string;
}

export interface Input {
  readonly from: OutputRef;
  /** Default: `/workspace/input`. */
  readonly guest?: string;
  /** True: the input is absent if the stage was passed. Required for an output of a stage with `when`. */
  readonly optional?: boolean;
}

export interface Retry {
  /** Total number of attempts. Default: 1. */
  readonly maxAttempts?: number;
  /** The same pause after each failed attempt; not with the next three. */
  readonly backoffMs?: number;
  /** The pause after the first failed attempt. */
  readonly initialMs?: number;
  /** The longest pause. Default: a day. */
  readonly maxMs?: number;
  /** Factor between one pause and the next. Default: 1. */
  readonly backoff?: number;
  /** Failures that are final: error codes, such as `stage/timeout`, or `exit:N`. */
  readonly nonRetryable?: readonly string[];
}

/** Defaults of all commands of a definition; a step or box can override each. */
export interface StageDefaults {
  /** A step or box may set these names to other values. */
  readonly env?: Env;
  readonly timeoutMs?: number;
  readonly retry?: Retry;
  readonly maxOutputMib?: number;
}

/** A Standard JSON Schema; the function that gets another schema throws. */
export interface OutputSchema<R = unknown> {
  readonly '~standard': {
    readonly vendor: string;
    readonly types?: { readonly input: R } | undefined;
    readonly jsonSchema?: { readonly input: (options: { readonly target: 'draft-2020-12' }) => unknown };
  };
}

/** The result of a stage in a run that mocks it: `voidbox run --mock`. */
export interface Mock {
  /** The stage's output: a text as it is, any other value as JSON. Default: empty. */
  readonly output?: JsonValue;
  /** Default: 0. Any other exit code fails the stage. */
  readonly exitCode?: number;
}

/** One of `git` and `from`. */
export interface Workspace {
  /** A repository: its top folder, absolute or from the definition's folder, or an address that begins with `https://`. */
  readonly git?: string;
  /** A branch, tag or commit. Default: the commit that is checked out. */
  readonly ref?: string;
  /** Includes files that are neither committed nor ignored. Default: false. */
  readonly includeDirty?: boolean;
  /** An earlier stage whose workspace this stage continues. */
  readonly from?: Step | Box;
  /** The folder in the guest. Default: `/workspace/repository`. */
  readonly guest?: string;
  /** `none`: the stage leaves no changes and passes no workspace on. Default: `keep`. */
  readonly changes?: 'keep' | 'none';
  /** A folder of the repository that is the working folder. Default: the top folder. */
  readonly subfolder?: string;
}

interface StageOptions<O extends Outputs, R = unknown> {
  /** A condition in CEL, such as `stages.build.json.ok`: if it does not hold, the stage is passed. */
  readonly when?: string;
  readonly cwd?: string;
  readonly env?: Env;
  /** Variables of the host that this command gets; a run starts only if all are set. */
  readonly secrets?: readonly string[];
  readonly inputs?: readonly Input[];
  readonly outputs?: O;
  /** The file whose bytes are the stage's output instead of its standard output. */
  readonly outputFile?: string;
  /** Time limit of one attempt. Default: an hour. */
  readonly timeoutMs?: number;
  /** Attempts of a failed command; lost VMs are replaced automatically. Default: one attempt. */
  readonly retry?: Retry;
  /** Its failure is tolerated: stages that depend on it still start, and the run can succeed. */
  readonly continueOnError?: boolean;
  /** It runs after all other stages have ended, whatever their outcome, also if the run is cancelled. */
  readonly finally?: boolean;
  readonly maxOutputMib?: number;
  readonly sandbox?: SandboxOptions;
  /** Schema of its output as JSON, or of the output of each item: any Standard Schema that exports JSON Schema, such as one of zod or ArkType. */
  readonly outputSchema?: OutputSchema<R>;
  /** A git repository that is the working folder of the stage; `voidbox apply` brings its changes back. */
  readonly workspace?: Workspace;
  /** Its result in a run with `--mock`; without `--mock` it has no effect. */
  readonly mock?: Mock;
  /** The command runs once for each item of this list, in a VM of its own; the stage's output is the list of results. */
  readonly forEach?: Items;
  /** With `forEach`: items at the same time. Default: the definition's `maxParallel`. */
  readonly maxParallel?: number;
  /** With `forEach`: once more items have failed than `allowFailures`, the others end. Default: false. */
  readonly failFast?: boolean;
  /** With `forEach`: the stage succeeds if at most this many items fail. Default: 0. */
  readonly allowFailures?: number;
}

/** A list of values, or its source: `items(stage)`, `items('param')` or `files('data/*.csv')`. */
export type Items = readonly JsonValue[] | ItemsRef;

export interface ItemsRef {
  readonly kind: 'items';
  /** An expression of a spec. */
  readonly source: string;
}

/**
 * The list in the output of an earlier stage, or in a parameter of type `list`.
 * @param path  members on the way to the list in a stage's JSON
 */
export function items(of: Step | Box | Part | string, ...path: readonly string[]): ItemsRef {
  const member = (name: string): string => `[${JSON.stringify(name)}]`;
  const source =
    typeof of === 'string' ? `params${member(of)}` : `stages${member(of.name)}.json${path.map(member).join('')}`;
  return { kind: 'items', source };
}

/**
 * The files of the definition's folder that match the pattern when the run is started, each as its path from there, in order.
 * The files themselves come into the VM by a mount.
 * @param pattern  `*` and `?` match characters of one name, `**` between slashes matches any folders
 */
export function files(pattern: string): ItemsRef {
  const quote = pattern.includes('"') ? "'" : '"';
  return { kind: 'items', source: `files(${quote}${pattern}${quote})` };
}

export interface StepOptions<O extends Outputs, R = unknown> extends StageOptions<O, R> {
  readonly dependsOn?: readonly (Step | Approval | Wait | Part)[];
  /** In a workflow: it starts when one of these has failed. */
  readonly onFailure?: readonly (Step | Approval | Wait | Part)[];
  /** Its output becomes this step's standard input. */
  readonly stdinFrom?: Step | Approval | Part;
  /** It serves until the run is cancelled, without a time limit; `outputFile` is published while it does. */
  readonly service?: true;
}

export interface BoxOptions<O extends Outputs, R = unknown> extends StageOptions<O, R> {
  /** It starts when one of these has failed; put it into `aside` of the pipeline. */
  readonly onFailure?: readonly (Box | Approval | Wait | Part)[];
  /** A box of an earlier stage, whose output becomes this one's standard input. */
  readonly stdinFrom?: Box | Approval | Part;
}

/** The model that an agent uses. */
export interface Llm {
  readonly provider: LlmProvider;
  readonly model?: string;
  readonly baseUrl?: string;
  /** A variable of the host. */
  readonly apiKeyEnv?: string;
  readonly credentialProxy?: boolean;
  /** Overrides the costs that the agent's command line reports. */
  readonly price?: Price;
}

/** US dollars for a million tokens. */
export interface Price {
  readonly input: number;
  /** Default: the price of `input`. */
  readonly cachedInput?: number;
  readonly output: number;
}

/** At least one limit. */
export interface Budget {
  readonly maxCostUsd?: number;
  /** Tokens that all calls together read and write. */
  readonly maxTokens?: number;
  /** Calls of the model. */
  readonly maxTurns?: number;
}

/** A text such as `file:skills/review.md`, an image, an MCP server, or a document. */
export type AgentSkill =
  | `${(typeof SKILL_TYPES)[number]}:${string}`
  | { readonly image: string; readonly mount: string; readonly readonly?: boolean }
  | { readonly command: string; readonly args?: readonly string[]; readonly env?: Env }
  | { readonly name: string; readonly content: string };

/** Options that only commands have. */
type OfCommands = 'cwd' | 'finally' | 'forEach' | 'maxParallel' | 'failFast' | 'allowFailures';

interface AgentOptions<O extends Outputs, R> extends Omit<StageOptions<O, R>, OfCommands> {
  readonly skills?: readonly AgentSkill[];
  /** Overrides the `llm` of the definition. */
  readonly llm?: Llm;
  /** Budget of one attempt. */
  readonly budget?: Budget;
}

export interface AgentBoxOptions<O extends Outputs, R = unknown> extends AgentOptions<O, R> {
  /** It starts when one of these has failed; put it into `aside` of the pipeline. */
  readonly onFailure?: readonly (Box | Approval | Wait | Part)[];
}

export interface AgentStepOptions<O extends Outputs, R = unknown> extends AgentOptions<O, R> {
  readonly dependsOn?: readonly (Step | Approval | Wait | Part)[];
  /** It starts when one of these has failed. */
  readonly onFailure?: readonly (Step | Approval | Wait | Part)[];
  /** It serves until the run is cancelled, without a time limit; `outputFile`, which it needs, is published while it does. */
  readonly service?: true;
}

interface SkillOptions<O extends Outputs, R> extends Omit<
  StageOptions<O, R>,
  OfCommands | 'outputFile' | 'maxOutputMib' | 'workspace'
> {
  /** The skill's entry file or its folder; a relative path starts from `baseDir` of `compile`. */
  readonly use: string;
  /** Values for the skill's params. Placeholders are filled in. */
  readonly params?: Readonly<Record<string, JsonValue>>;
  /** The agent that answers its prompts: a provider, or `llm`, `skills` and `budget` of an agent. Default: the definition's `llm`. */
  readonly agent?:
    | LlmProvider
    | { readonly llm?: Llm; readonly skills?: readonly AgentSkill[]; readonly budget?: Budget };
}

export interface SkillBoxOptions<O extends Outputs, R = unknown> extends SkillOptions<O, R> {
  /** It starts when one of these has failed; put it into `aside` of the pipeline. */
  readonly onFailure?: readonly (Box | Approval | Wait | Part)[];
}

export interface SkillStepOptions<O extends Outputs, R = unknown> extends SkillOptions<O, R> {
  readonly dependsOn?: readonly (Step | Approval | Wait | Part)[];
  /** It starts when one of these has failed. */
  readonly onFailure?: readonly (Step | Approval | Wait | Part)[];
}

interface Stage<O extends Outputs, R> {
  readonly name: string;
  /** The type of its output. Only types use it; no stage has a value. */
  readonly '~result'?: R;
  /** In the words of the spec. */
  readonly spec: SpecObject;
  /** A named output, for the `inputs` of a later stage. */
  output(name: keyof O & string): OutputRef;
}

export interface Step<O extends Outputs = Outputs, R = unknown> extends Stage<O, R> {
  readonly kind: 'step';
}

export interface Box<O extends Outputs = Outputs, R = unknown> extends Stage<O, R> {
  readonly kind: 'box';
}

export interface ApprovalOptions {
  /** The question. Placeholders are filled in. */
  readonly message: string;
  /** Names of the people who are asked, for display. Voidbox does not check who answers. */
  readonly by?: readonly string[];
  /** How long it waits for an answer. Default: as long as the run is open. */
  readonly timeoutMs?: number;
  /** The outcome without an answer in that time. Default: `fail`. */
  readonly onTimeout?: TimeoutAnswer;
  /** Values that the person who approves enters. */
  readonly fields?: readonly Field[];
  /** As for a step or box. */
  readonly when?: string;
  /** In a workflow; a pipeline has its order. */
  readonly dependsOn?: readonly (Step | Approval | Wait | Part)[];
  /** It starts when one of these has failed; in a pipeline, put it into `aside`. */
  readonly onFailure?: readonly (Step | Box | Approval | Wait | Part)[];
  /** A rejection is tolerated: stages that depend on it still start. */
  readonly continueOnError?: boolean;
}

export interface Field {
  readonly name: string;
  /** Default: `choice` with `choices`, else `text`. */
  readonly type?: FieldType;
  readonly choices?: readonly string[];
  /** Default: true. */
  readonly required?: boolean;
  readonly description?: string;
}

/** A stage that asks people; its output is their answer, as JSON. */
export interface Approval {
  readonly kind: 'approval';
  readonly name: string;
  /** In the words of the spec. */
  readonly spec: SpecObject;
}

export interface WaitOptions {
  /** From the moment at which the stage starts; this, or `until`. */
  readonly forMs?: number;
  /**
   * A date, a text with its offset from UTC, or an expression that gives such a text, such as `stages.plan.json.at`; a time that has
   * passed ends the wait at once.
   */
  readonly until?: Date | string;
  /** As for a step or box. */
  readonly when?: string;
  /** In a workflow; a pipeline has its order. */
  readonly dependsOn?: readonly (Step | Approval | Wait | Part)[];
  /** It starts when one of these has failed; in a pipeline, put it into `aside`. */
  readonly onFailure?: readonly (Step | Box | Approval | Wait | Part)[];
  /** Its failure is tolerated. */
  readonly continueOnError?: boolean;
}

/** A stage that lets time pass; it has no output. */
export interface Wait {
  readonly kind: 'wait';
  readonly name: string;
  /** In the words of the spec. */
  readonly spec: SpecObject;
}

export interface PartOptions {
  /** Values for the parameters of the spec. Placeholders are filled in. */
  readonly with?: Readonly<Record<string, ParamValue>>;
  /** As for a step or box. */
  readonly when?: string;
  /** In a workflow; a pipeline has its order. */
  readonly dependsOn?: readonly (Step | Approval | Wait | Part)[];
  /** In a workflow: it starts when one of these has failed. */
  readonly onFailure?: readonly (Step | Approval | Wait | Part)[];
  /** Schema of its output as JSON, or of the output of each item: any Standard Schema that exports JSON Schema. */
  readonly outputSchema?: OutputSchema;
  /** The failure of the whole part is tolerated: stages that depend on it still start, and the run can succeed. */
  readonly continueOnError?: boolean;
  /** The result of the whole part in a run with `--mock`; without `--mock` it has no effect. */
  readonly mock?: Mock;
  /** The part runs once for each item of this list; its output is the list of results. */
  readonly forEach?: Items;
  /** With `forEach`: items at the same time. Default: the definition's `maxParallel`. */
  readonly maxParallel?: number;
  /** With `forEach`: once more items have failed than `allowFailures`, the others end. Default: false. */
  readonly failFast?: boolean;
  /** With `forEach`: the part succeeds if at most this many items fail. Default: 0. */
  readonly allowFailures?: number;
}

/** The result of `defineWorkflow` or `definePipeline`. */
export interface DefinedPart {
  readonly name: string;
  readonly source: string;
}

/** Another spec as a part of this one; its output is the output of that spec. */
export interface Part {
  readonly kind: 'part';
  readonly name: string;
  /** In the words of the spec. */
  readonly spec: SpecObject;
}

export interface FanOut {
  readonly kind: 'fan-out';
  readonly name: string | undefined;
  readonly boxes: readonly (Box | Approval | Wait | Part)[];
}

/** Boxes that run again and again: see `loop`. */
export interface Loop {
  readonly kind: 'loop';
  readonly name: string;
  readonly boxes: readonly (Box | Approval | Wait | Part)[];
  readonly options: LoopOptions;
}

export interface LoopOptions {
  /** A condition in CEL over the boxes of a visit and earlier ones, such as `stages.judge.json.score >= 8`: the loop ends once it holds. */
  readonly until: string;
  /** 1 to 1000. */
  readonly maxVisits: number;
  /** After the last visit: `fail`, as `loop/limit`, or `pass`, with the output of that visit. Default: `fail`. */
  readonly onLimit?: OnLimit;
}

/** JSON; keys with `undefined` are left out. */
export type SpecObject = { readonly [key: string]: unknown };

/** A command in the VM that the steps of a workflow share, or in its own when it has a `sandbox`. */
export function step<const O extends Outputs = Record<never, string>, R = string>(
  name: string,
  command: Command,
  options: StepOptions<O, R> = {},
): Step<O, R> {
  const of = `of step "${name}"`;
  checkOptions(`options ${of}`, options, STEP_OPTIONS);
  const spec = {
    ...stageSpec(name, command, options, of),
    depends_on: namesOf(`\`dependsOn\` ${of}`, options.dependsOn),
    on_failure: namesOf(`\`onFailure\` ${of}`, options.onFailure),
    mode: options.service === true ? 'service' : undefined,
  };
  tellPlace(spec, step);
  return { kind: 'step', name, spec, output: (output) => ({ stage: name, output }) };
}

/** A command in a VM of its own. */
export function box<const O extends Outputs = Record<never, string>, R = string>(
  name: string,
  command: Command,
  options: BoxOptions<O, R> = {},
): Box<O, R> {
  const of = `of box "${name}"`;
  checkOptions(`options ${of}`, options, BOX_OPTIONS);
  const spec = {
    ...stageSpec(name, command, options, of),
    on_failure: namesOf(`\`onFailure\` ${of}`, options.onFailure),
  };
  tellPlace(spec, box);
  return { kind: 'box', name, spec, output: (output) => ({ stage: name, output }) };
}

/** A coding agent with a prompt, in the VM that the steps of a workflow share. */
export function agentStep<const O extends Outputs = Record<never, string>, R = string>(
  name: string,
  prompt: string,
  options: AgentStepOptions<O, R> = {},
): Step<O, R> {
  const of = `of step "${name}"`;
  checkOptions(`options ${of}`, options, AGENT_STEP_OPTIONS);
  const spec = {
    ...agentSpec(name, prompt, options, of),
    depends_on: namesOf(`\`dependsOn\` ${of}`, options.dependsOn),
    on_failure: namesOf(`\`onFailure\` ${of}`, options.onFailure),
    mode: options.service === true ? 'service' : undefined,
  };
  tellPlace(spec, agentStep);
  return { kind: 'step', name, spec, output: (output) => ({ stage: name, output }) };
}

/** A coding agent in a VM of its own. */
export function agentBox<const O extends Outputs = Record<never, string>, R = string>(
  name: string,
  prompt: string,
  options: AgentBoxOptions<O, R> = {},
): Box<O, R> {
  const of = `of box "${name}"`;
  checkOptions(`options ${of}`, options, AGENT_BOX_OPTIONS);
  const spec = {
    ...agentSpec(name, prompt, options, of),
    on_failure: namesOf(`\`onFailure\` ${of}`, options.onFailure),
  };
  tellPlace(spec, agentBox);
  return { kind: 'box', name, spec, output: (output) => ({ stage: name, output }) };
}

function agentSpec(name: string, prompt: string, options: AgentOptions<Outputs, unknown>, of: string): SpecObject {
  return {
    name,
    prompt,
    skills: options.skills,
    llm: llmSpec(options.llm, of),
    budget: budgetSpec(options.budget, of),
    ...besideWork(options, of),
  };
}

/**
 * A step machine as a step of a workflow: an agent answers the prompts of the skill, whose final output is the step's.
 * The worker must have the skill registered; `voidbox run` registers the skills of its spec.
 */
export function skillStep<const O extends Outputs = Record<never, string>, R = unknown>(
  name: string,
  options: SkillStepOptions<O, R>,
): Step<O, R> {
  const of = `of step "${name}"`;
  checkOptions(`options ${of}`, options, SKILL_STEP_OPTIONS);
  const spec = {
    ...skillSpec(name, options, of),
    depends_on: namesOf(`\`dependsOn\` ${of}`, options.dependsOn),
  };
  tellPlace(spec, skillStep);
  return { kind: 'step', name, spec, output: (output) => ({ stage: name, output }) };
}

/** As `skillStep`, as a box of a pipeline. */
export function skillBox<const O extends Outputs = Record<never, string>, R = unknown>(
  name: string,
  options: SkillBoxOptions<O, R>,
): Box<O, R> {
  const of = `of box "${name}"`;
  checkOptions(`options ${of}`, options, SKILL_BOX_OPTIONS);
  const spec = skillSpec(name, options, of);
  tellPlace(spec, skillBox);
  return { kind: 'box', name, spec, output: (output) => ({ stage: name, output }) };
}

function skillSpec(
  name: string,
  options: SkillOptions<Outputs, unknown> & { readonly onFailure?: readonly { readonly name: string }[] },
  of: string,
): SpecObject {
  const { use, params, agent, onFailure } = options;
  return {
    name,
    skill: { use, params, agent: answeringSpec(agent, of) },
    on_failure: namesOf(`\`onFailure\` ${of}`, onFailure),
    ...besideWork(options, of),
  };
}

function answeringSpec(agent: SkillOptions<Outputs, unknown>['agent'], of: string): unknown {
  if (agent === undefined || typeof agent === 'string') return agent;
  checkOptions(`\`agent\` ${of}`, agent, SKILL_AGENT_KEYS);
  const ofAgent = `of \`agent\` ${of}`;
  return { llm: llmSpec(agent.llm, ofAgent), skills: agent.skills, budget: budgetSpec(agent.budget, ofAgent) };
}

export function llmSpec(llm: Llm | undefined, of: string): SpecObject | undefined {
  if (llm === undefined) return undefined;
  checkOptions(`\`llm\` ${of}`, llm, LLM_KEYS);
  const { provider, model, baseUrl, apiKeyEnv, credentialProxy, price } = llm;
  return {
    provider,
    model,
    base_url: baseUrl,
    api_key_env: apiKeyEnv,
    credential_proxy: credentialProxy,
    price: priceSpec(price, of),
  };
}

function priceSpec(price: Price | undefined, of: string): SpecObject | undefined {
  if (price === undefined) return undefined;
  checkOptions(`\`price\` of \`llm\` ${of}`, price, PRICE_KEYS);
  const { input, cachedInput, output } = price;
  return { input, cached_input: cachedInput, output };
}

export function budgetSpec(budget: Budget | undefined, of: string): SpecObject | undefined {
  if (budget === undefined) return undefined;
  checkOptions(`\`budget\` ${of}`, budget, BUDGET_KEYS);
  const { maxCostUsd, maxTokens, maxTurns } = budget;
  return { max_cost_usd: maxCostUsd, max_tokens: maxTokens, max_turns: maxTurns };
}

/** A question to people, as a step of a workflow or a box of a pipeline. It waits without a VM. */
export function approval(name: string, options: ApprovalOptions): Approval {
  const of = `of approval "${name}"`;
  checkOptions(`options ${of}`, options, APPROVAL_OPTIONS);
  const { message, by, timeoutMs, onTimeout, fields, dependsOn, onFailure, when, continueOnError } = options;
  const timeout = durationOf(`\`timeoutMs\` ${of}`, timeoutMs);
  const spec = {
    name,
    when,
    approval: { message, by, timeout, on_timeout: onTimeout, fields },
    depends_on: namesOf(`\`dependsOn\` ${of}`, dependsOn),
    on_failure: namesOf(`\`onFailure\` ${of}`, onFailure),
    continue_on_error: continueOnError,
  };
  tellPlace(spec, approval);
  return { kind: 'approval', name, spec };
}

/** Time that passes, as a step of a workflow or a box of a pipeline, without a VM. */
export function wait(name: string, options: WaitOptions): Wait {
  const of = `of wait "${name}"`;
  checkOptions(`options ${of}`, options, WAIT_OPTIONS);
  const { forMs, until, when, dependsOn, onFailure, continueOnError } = options;
  const spec = {
    name,
    when,
    wait: {
      for: durationOf(`\`forMs\` ${of}`, forMs),
      until: until instanceof Date ? until.toISOString() : until,
    },
    depends_on: namesOf(`\`dependsOn\` ${of}`, dependsOn),
    on_failure: namesOf(`\`onFailure\` ${of}`, onFailure),
    continue_on_error: continueOnError,
  };
  tellPlace(spec, wait);
  return { kind: 'wait', name, spec };
}

/**
 * Another spec as a step of a workflow or a box of a pipeline. The names of its stages follow the name of the part and a dot.
 * @param uses  a definition, or a YAML or JSON file, from the folder of the definition: `./review.yaml`, or a part of it: `./review.yaml#checks`
 */
export function part(name: string, uses: string | DefinedPart, options: PartOptions = {}): Part {
  const of = `of part "${name}"`;
  checkOptions(`options ${of}`, options, PART_OPTIONS);
  const { with: values, when, dependsOn, onFailure, continueOnError, outputSchema, mock } = options;
  const spec = {
    name,
    when,
    uses,
    with: values,
    ...eachSpec(options, of),
    output_schema: jsonSchemaOf(outputSchema),
    mock: mockSpec(mock, of),
    depends_on: namesOf(`\`dependsOn\` ${of}`, dependsOn),
    on_failure: namesOf(`\`onFailure\` ${of}`, onFailure),
    continue_on_error: continueOnError,
  };
  tellPlace(spec, part);
  return { kind: 'part', name, spec };
}

/** Boxes that run side by side. The next stage finds `[{"name", "output"}, …]` of them as its input; after the last stage it is the run's result. */
export function fanOut(
  boxes: readonly (Box | Approval | Wait | Part)[],
  options: { readonly name?: string } = {},
): FanOut {
  const { name } = options;
  const what = name === undefined ? 'a fan-out' : `fan-out "${name}"`;
  checkOptions(`options of ${what}`, options, FAN_OUT_OPTIONS);
  checkBoxes(what, boxes);
  return { kind: 'fan-out', name, boxes };
}

/**
 * Boxes that run one after the other, again and again until a condition holds. The input of the first box is the output of the
 * visit before; the input of the stage after the loop is the output of the last visit.
 */
export function loop(name: string, boxes: readonly (Box | Approval | Wait | Part)[], options: LoopOptions): Loop {
  checkOptions(`options of loop "${name}"`, options, LOOP_OPTIONS);
  checkBoxes(`loop "${name}"`, boxes);
  return { kind: 'loop', name, boxes, options };
}

function checkBoxes(what: string, boxes: readonly { readonly name: string }[]): void {
  checkList(`boxes of ${what}`, boxes);
  for (const each of boxes) nameOf(`a box of ${what}`, each);
}

export function loopSpec({ name, boxes, options }: Loop): SpecObject {
  const { until, maxVisits, onLimit } = options;
  return { type: 'loop', name, boxes: boxes.map((each) => each.name), until, max_visits: maxVisits, on_limit: onLimit };
}

function stageSpec(
  name: string,
  command: Command,
  options: StageOptions<Outputs> & { readonly stdinFrom?: Step | Box | Approval | Part },
  of: string,
): SpecObject {
  return {
    name,
    run: commandSpec(command, options, of),
    ...eachSpec(options, of),
    ...besideWork(options, of),
  };
}

type EachOptions = Pick<StageOptions<Outputs>, 'forEach' | 'maxParallel' | 'failFast' | 'allowFailures'>;

function eachSpec({ forEach, maxParallel, failFast, allowFailures }: EachOptions, of: string): SpecObject {
  return {
    for_each: forEach === undefined ? undefined : itemsSpec(forEach, `\`forEach\` ${of}`),
    max_parallel: maxParallel,
    fail_fast: failFast,
    allow_failures: allowFailures,
  };
}

export function itemsSpec(list: Items, what: string): unknown {
  const given: unknown = list;
  if (Array.isArray(given)) return given;
  if (typeof given === 'object' && given !== null && 'source' in given) return given.source;
  throw new TypeError(`${what}: a list is needed, or what \`items\` or \`files\` gives, got ${shown(given)}`);
}

type CommandOptions = Pick<StageOptions<Outputs>, 'cwd'> & { readonly stdinFrom?: Step | Box | Approval | Part };

function commandSpec(command: unknown, { stdinFrom, cwd }: CommandOptions, of: string): unknown {
  const beside = {
    stdin_from: stdinFrom === undefined ? undefined : nameOf(`\`stdinFrom\` ${of}`, stdinFrom),
    cwd,
  };
  if (typeof command === 'string')
    return stdinFrom === undefined && cwd === undefined ? command : { script: command, ...beside };
  if (!Array.isArray(command))
    throw new TypeError(
      `the command ${of}: a text, or a list of program and arguments is needed, got ${shown(command)}`,
    );
  const [program, ...args] = command as readonly (string | number)[];
  return { program, args, ...beside };
}

function inputSpec(input: Input, of: string): SpecObject {
  checkOptions(`an input ${of}`, input, INPUT_KEYS);
  const { from, guest, optional } = input;
  const given: unknown = from;
  if (typeof given !== 'object' || given === null || !('stage' in given && 'output' in given))
    throw new TypeError(
      `\`from\` of an input ${of}: an output is needed, got ${shown(given)}; write \`stage.output("name")\``,
    );
  return { from: `${from.stage}.${from.output}`, guest, optional };
}

function besideWork(options: StageOptions<Outputs>, of: string): SpecObject {
  const { outputs, inputs, retry, sandbox, mock } = options;
  if (inputs !== undefined) checkList(`\`inputs\` ${of}`, inputs);
  return {
    when: options.when,
    env: options.env,
    secrets: options.secrets,
    inputs: inputs?.map((input) => inputSpec(input, of)),
    outputs:
      outputs === undefined ? undefined : Object.entries(outputs).map(([output, guest]) => ({ name: output, guest })),
    output_file: options.outputFile,
    timeout_secs: secondsOf(options.timeoutMs),
    retry: retrySpec(retry, of),
    continue_on_error: options.continueOnError,
    finally: options.finally,
    max_output_mb: options.maxOutputMib,
    sandbox: sandboxSpec(sandbox),
    output_schema: jsonSchemaOf(options.outputSchema),
    workspace: workspaceSpec(options.workspace, of),
    mock: mockSpec(mock, of),
  };
}

function workspaceSpec(workspace: Workspace | undefined, of: string): unknown {
  if (workspace === undefined) return undefined;
  checkOptions(`\`workspace\` ${of}`, workspace, WORKSPACE_KEYS);
  const { git, ref, includeDirty, from, guest, subfolder, changes } = workspace;
  return {
    git,
    from: from === undefined ? undefined : nameOf(`\`from\` of \`workspace\` ${of}`, from),
    ref,
    include_dirty: includeDirty,
    guest,
    changes,
    subfolder,
  };
}

function mockSpec(mock: Mock | undefined, of: string): unknown {
  if (mock === undefined) return undefined;
  checkOptions(`\`mock\` ${of}`, mock, MOCK_KEYS);
  return { output: mock.output, exit_code: mock.exitCode };
}

/** A plan is data, so checks of a schema that its JSON Schema does not contain would be lost. */
function jsonSchemaOf(schema: OutputSchema | undefined): unknown {
  if (schema === undefined) return undefined;
  // Of JavaScript, where types say nothing.
  const standard = (schema as Partial<OutputSchema>)['~standard'];
  if (standard === undefined)
    throw new TypeError('`outputSchema` is not a Standard Schema: use zod, ArkType or the like');
  const { jsonSchema, vendor } = standard;
  if (jsonSchema === undefined)
    throw new TypeError(
      `\`outputSchema\` is a schema of ${vendor} that exports no JSON Schema, which a plan holds: use a version of it that implements Standard JSON Schema, as recent versions of zod and ArkType do`,
    );
  return jsonSchema.input({ target: 'draft-2020-12' });
}

export function sandboxSpec(sandbox: SandboxOptions | undefined): SpecObject | undefined {
  if (sandbox === undefined) return undefined;
  const { memoryMib, diskMib, guestImage, keepMs, ...same } = sandbox;
  return {
    ...same,
    memory_mb: memoryMib,
    disk_mb: diskMib,
    keep_secs: secondsOf(keepMs),
    guest_image: guestImage,
  };
}

export function defaultsSpec(defaults: StageDefaults | undefined, of: string): SpecObject | undefined {
  if (defaults === undefined) return undefined;
  checkOptions(`\`defaults\` ${of}`, defaults, DEFAULTS_KEYS);
  const { env, timeoutMs, retry, maxOutputMib } = defaults;
  return {
    env,
    timeout_secs: secondsOf(timeoutMs),
    retry: retrySpec(retry, `of \`defaults\` ${of}`),
    max_output_mb: maxOutputMib,
  };
}

function retrySpec(retry: Retry | undefined, of: string): SpecObject | undefined {
  if (retry === undefined) return undefined;
  checkOptions(`\`retry\` ${of}`, retry, RETRY_KEYS);
  return {
    max_attempts: retry.maxAttempts,
    backoff_secs: secondsOf(retry.backoffMs),
    initial_secs: secondsOf(retry.initialMs),
    max_secs: secondsOf(retry.maxMs),
    backoff: retry.backoff,
    non_retryable: retry.nonRetryable,
  };
}
