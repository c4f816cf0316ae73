/**
 * A Plan is what a run carries out: every name resolved, every default filled, JSON-safe, and free of
 * values that belong to one host. It is made by `compilePlan` in `domain/language` and never edited.
 * Arrays stand in the order of the spec; everything that depends on order uses that order.
 */
import type { EgressPlan } from './egress.ts';

/** The Plan format that this build reads and writes. A change of meaning is a new number and an ADR. */
export const PLAN_VERSION = 1;

/** Limits that the compiler enforces; the workflow and the activities rely on them. */
export const PLAN_LIMITS = {
  /** Inline values (input, carried state) above this travel as a DataRef. */
  inlineBytes: 2 * 1024,
  /** As it is recorded, without what equals a default: `planBytes` in `wire.ts`. */
  planBytes: 16 * 1024 * 1024,
  /** A larger one travels to admission as a DataRef: Temporal carries 2 MiB, and keeps it in history. */
  inlinePlanBytes: 512 * 1024,
  /** Of what the workflow holds of it, names, edges and limits: `machineBytes` in `pipeline/machine-plan.ts`. */
  machineBytes: 512 * 1024,
  stages: 2_000,
  /** Those with `finally`: after a history that is full there is room for so many. */
  finallyStages: 16,
  /** Named outputs of all stages together: each is a ref in carried state. */
  outputs: 2_000,
  mountsPerScope: 16,
  /** JSON of an approval: it stands in an event. */
  approvalBytes: 128 * 1024,
  /** Of an approval. */
  approvalFields: 32,
  approvers: 32,
  choices: 64,
  /** UTF-8 of the output that stands for a mocked stage's. */
  mockBytes: 64 * 1024,
  /** Of one `retry`. */
  nonRetryable: 32,
  /** Expressions in the texts of one stage. */
  textSources: 64,
  /** UTF-16 code units of an approval's message, as it is written and as it is asked. */
  messageCharacters: 4 * 1024,
  /** Of a stage that waits until a time: from the admission of its run, or from its own start where the time is known only then. */
  waitMs: 400 * 24 * 3_600_000,
  /** Of an agent. */
  skills: 64,
  /** JSON of the values that a step machine is started with. */
  skillParamsBytes: 256 * 1024,
  /** UTF-16 code units of a reference to an image, a snapshot, a model, an address. */
  referenceCharacters: 512,
  nameLength: 64,
  /** Of a loop. */
  visits: 1_000,
  /** Of all stages in loops together, each as often as it may be done. */
  stageVisits: 5_000,
  /** Of one list of items. */
  items: 10_000,
  /** Lists and mappings within one item of such a list. */
  itemLevels: 200,
  /** Outputs of earlier stages, named or not, that a stage with items takes: a window's history has them once for each attempt. */
  itemInputs: 32,
  /** What one item may take of a window's history, in attempts: `attemptsOfItem` in `pipeline/item-plan.ts`. */
  itemAttempts: 3_000,
  /** Windows of one stage, each of which its run's history has; uneven shares make some more of them. */
  itemWindows: 1_000,
  /** Windows of one list within an item: the window around it counts them as attempts of that item. */
  nestedWindows: 14,
  /** Items of a list within an item, in all items of the lists around it together. */
  nestedItems: 100_000,
  /** Items of lists within each other that are done at the same time: the product of their `maxParallel`. */
  nestedParallel: 1_000,
  /** Parts in parts. */
  partDepth: 4,
  /** Files that a spec uses, near and far. */
  partFiles: 64,
  /** Members on the way to a list in a stage's output. */
  listPath: 16,
  /** JSON of a list of items: a worker holds it in memory. */
  itemListBytes: 16 * 1024 * 1024,
} as const;

export const PLAN_KINDS = ['workflow', 'pipeline', 'agent', 'sandbox'] as const;
export type PlanKind = (typeof PLAN_KINDS)[number];

export interface Plan {
  readonly version: typeof PLAN_VERSION;
  readonly kind: PlanKind;
  readonly name: string;
  readonly stages: readonly StagePlan[];
  readonly scopes: readonly ScopePlan[];
  /** What the run's result is. */
  readonly output: OutputPlan;
  /** Most stages that run at the same time; free memory on the host may lower it. */
  readonly maxParallel: number;
  /** Time for the whole run, without that in which nothing but waits is under way. Absent: it has no limit. */
  readonly timeoutMs?: number | undefined;
  /** Time for the whole run, with all waits. Only the start of a run sets it, and no spec. Absent: it has no limit. */
  readonly deadlineMs?: number | undefined;
  /** Time for its stages with `finally`, all of them together; absent where it has none. */
  readonly graceMs?: number | undefined;
  /** What all attempts of all its agents together may take; absent: as much as they like. */
  readonly budget?: BudgetPlan | undefined;
  /** Host variables that some stage reads; the client hands them to the worker outside of history. */
  readonly hostVariables: readonly string[];
}

export type OutputPlan =
  /** The standard output (or output file) of one stage, as it is. */
  | { readonly kind: 'stage'; readonly stage: string }
  /** A JSON array `[{"name","output"}]` of the outputs of several stages, in this order. */
  | { readonly kind: 'merge'; readonly stages: readonly string[] };

/** One piece of work, in a VM where it needs one. */
export interface StagePlan {
  /** Unique in the plan; `[A-Za-z0-9._-]{1,64}`. */
  readonly id: string;
  /** The VM that the work happens in; null for work that takes none, which takes no slot of `maxParallel` either. */
  readonly scope: string | null;
  /** What has to have happened before this stage starts: every edge holds. */
  readonly after: readonly EdgePlan[];
  /** Of its edges on a failure, one has to hold and not each. Absent: each. */
  readonly anyFailure?: true | undefined;
  /** Decides, once every edge holds, whether the stage runs or is passed; null: it runs. */
  readonly when: ConditionPlan | null;
  /** Its command, or the part that it ends, is done once for each item of a list; absent: it is done once. */
  readonly each?: EachPlan | undefined;
  /**
   * It belongs to a part that is done for each item: the stage that ends that part, which has `each`. Of nested ones the innermost.
   * Absent: it is one of the run's own stages.
   */
  readonly of?: string | undefined;
  /** It ends the visits of a loop; absent: it ends none. Its work is of the kind `part`. */
  readonly loop?: LoopPlan | undefined;
  /** In a loop: the most visits in which it is done, of all loops around it together. Absent: it is in none. */
  readonly visits?: number | undefined;
  /**
   * First in a loop: the stage that ends the loop, whose output of the visit before it finds as its input; of loops in each other the
   * inner one first, and the first that has an output counts. Absent: it takes none.
   */
  readonly again?: readonly string[] | undefined;
  readonly work: WorkPlan;
  /** What stands for its work in a run that mocks it. A plan that was admitted has none: there the work is `MockWork`. */
  readonly mock?: MockPlan | undefined;
  /** Texts of the work that are made when an attempt begins; absent: all are as the work says them. */
  readonly texts?: TextsPlan | undefined;
  /** What lies in the stage's `/workspace/input.json`. */
  readonly input: InputPlan;
  /** Folders or files of earlier stages, put into the guest before the command starts. */
  readonly inputs: readonly StageInputPlan[];
  /** Folders or files that later stages may take. */
  readonly outputs: readonly StageOutputPlan[];
  /** A git repository that its work finds, and whose changes it leaves. Absent: none. */
  readonly workspace?: WorkspacePlan | undefined;
  /** Guest path whose bytes are the stage's output instead of its standard output; absent is an error code at the stage's end. */
  readonly outputFile: string | null;
  /** What its output, or that of each of its items, has to be as JSON: a JSON Schema. Absent: anything. */
  readonly outputSchema?: JsonValue | undefined;
  /** Absolute time for one attempt, counted by the keeper where the work is a command; of a service `SERVICE_TIMEOUT_MS`. */
  readonly timeoutMs: number;
  readonly retry: RetryPlan;
  /** Its failure is tolerated: those that wait for its success go on, without data of it, and the run may succeed. Absent: no. */
  readonly continueOnError?: true | undefined;
  /** It starts once every stage without this has ended, however they did, and also when the run is cancelled. Absent: no. */
  readonly finally?: true | undefined;
  /** Most bytes of standard output and error together; more fails the stage with `stage/output-limit`. */
  readonly maxOutputBytes: number;
}

/** An edge from an earlier stage. Data is taken over `success` edges alone. */
export interface EdgePlan {
  readonly stage: string;
  readonly on: EdgeCondition;
}

/** A condition, and all that it reads. */
export interface ConditionPlan {
  /** An expression in CEL whose value is a boolean. */
  readonly source: string;
  /** The stages that it reads, each once, in the order of the source; edges from them stand in `after`. */
  readonly stages: readonly string[];
  /** Values of the parameters that it reads, by name. */
  readonly params: Readonly<Record<string, ConditionValue>>;
}

/** Texts in which values of expressions stand. In the work their places hold what the author wrote. */
export interface TextsPlan {
  /** Expressions in CEL, each once. */
  readonly sources: readonly string[];
  /** The stages whose outputs they read, each once; edges on their success stand in `after`. */
  readonly stages: readonly string[];
  /** Values of the parameters that they read, by name. */
  readonly params: Readonly<Record<string, ConditionValue>>;
  readonly texts: readonly TextPlan[];
}

export interface TextPlan {
  readonly place: TextPlace;
  /** Literal text, and indices into `sources`. */
  readonly parts: readonly (string | number)[];
}

export type TextPlace =
  | { readonly kind: 'arg'; readonly index: number }
  /** A variable that the work's `env` has. */
  | { readonly kind: 'env'; readonly name: string }
  /** Of an approval. */
  | { readonly kind: 'message' }
  /** Of an agent. */
  | { readonly kind: 'prompt' }
  /** Of a wait. */
  | { readonly kind: 'until' }
  /** A text among the values that a step machine is started with. */
  | { readonly kind: 'param'; readonly name: string };

/** As JSON has it. */
export type ConditionValue =
  | string
  | number
  | boolean
  | null
  | readonly ConditionValue[]
  | { readonly [key: string]: ConditionValue };

/**
 * The items of a list, each of which the stage's command or part is done for, in VMs of its own. The item is the command's
 * `/workspace/input.json`, or the input of the part, and the results in the order of the items are the stage's output. Of a stage
 * that ends a part, edges from stages of the part hold within an item, and all others before the first item.
 */
export interface EachPlan {
  readonly list: ListPlan;
  /** Most items at the same time, beside the run's own `maxParallel`. */
  readonly maxParallel: number;
  /** Once more than `allowFailures` items have failed, those that run are cancelled and no other starts. */
  readonly failFast: boolean;
  /** With no more failed items than this the stage succeeds. */
  readonly allowFailures: number;
}

/** A loop: its stages are done again until a condition holds after them. */
export interface LoopPlan {
  /** Decided once all stages of a visit have ended. */
  readonly until: ConditionPlan;
  readonly maxVisits: number;
  /** What it comes to when the condition does not hold after the last visit. */
  readonly onLimit: OnLimit;
}

export const ON_LIMITS = ['fail', 'pass'] as const;
export type OnLimit = (typeof ON_LIMITS)[number];

export type ListPlan =
  | { readonly kind: 'inline'; readonly items: readonly JsonValue[] }
  /** A list in the output of one stage, which is JSON: the value at the end of `path`, by names of members; empty is all of it. */
  | { readonly kind: 'stage-output'; readonly stage: string; readonly path: readonly string[] };

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

export const EDGE_CONDITIONS = ['success', 'end', 'failure'] as const;

/**
 * `success`: it succeeded, was passed over because its condition did not hold, or failed with `continueOnError`. `end`: it ended, however it did.
 * `failure`: it failed; once it cannot fail any more, the stage that waits for this is skipped.
 */
export type EdgeCondition = (typeof EDGE_CONDITIONS)[number];

/**
 * What a stage does. Code that looks at `kind` does so in a switch without a default, and most of it stands in `work.ts`,
 * so that the compiler names each place that a new kind has to touch.
 */
export type WorkPlan =
  | CommandWork
  | ApprovalWork
  | WaitWork
  | PartWork
  | AgentWork
  | StepMachineWork
  | ShellWork
  | MockWork;

/** A program in the stage's VM. */
export interface CommandWork {
  readonly kind: 'command';
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: readonly EnvPlan[];
  readonly stdin: StdinPlan;
  /** It serves until the run is cancelled: `timeoutMs` of its stage is `SERVICE_TIMEOUT_MS`. */
  readonly service?: true | undefined;
}

/** A coding agent with a prompt, in the stage's VM. What of it this build can do says `unsupported.ts`. */
export interface AgentWork {
  readonly kind: 'agent';
  /** `task` ends with its output, `service` serves until the run is cancelled, `interactive` has a terminal. */
  readonly mode: AgentMode;
  /** Empty in mode `interactive` alone. */
  readonly prompt: string;
  /** Null: the worker's choice. */
  readonly llm: LlmPlan | null;
  readonly skills: readonly AgentSkill[];
  readonly env: readonly EnvPlan[];
  /** Talks with the agents beside it. */
  readonly messaging: boolean;
  /** What an attempt of it may take; absent: as much as it likes. */
  readonly budget?: BudgetPlan | undefined;
  /** The mock agent plays it, without a model. Only admission says so, for a run that asks for it; absent: it is the real one. */
  readonly played?: true | undefined;
}

export const AGENT_MODES = ['task', 'service', 'interactive'] as const;
export type AgentMode = (typeof AGENT_MODES)[number];

export const LLM_PROVIDERS = [
  'claude',
  'claude-personal',
  'codex',
  'codex-personal',
  'ollama',
  'lm-studio',
  'custom',
] as const;
export type LlmProvider = (typeof LLM_PROVIDERS)[number];

export interface LlmPlan {
  readonly provider: LlmProvider;
  /** Null, as with the next two: the provider's own. */
  readonly model: string | null;
  readonly baseUrl: string | null;
  /** A variable of the host. */
  readonly apiKeyEnv: string | null;
  readonly credentialProxy: boolean;
  /** What calls of the model cost; absent: what its command line says. */
  readonly price?: PricePlan | undefined;
}

/** Limits, at least one. What is used up to a limit is within it. */
export interface BudgetPlan {
  readonly maxCostUsd?: number | undefined;
  /** Of input and output together, cached input included. */
  readonly maxTokens?: number | undefined;
  /** Calls of the model. */
  readonly maxTurns?: number | undefined;
}

/** US dollars for a million tokens. */
export interface PricePlan {
  readonly inputUsd: number;
  /** Of input that the provider had in its cache; absent: as all input. */
  readonly cachedInputUsd?: number | undefined;
  readonly outputUsd: number;
}

/** What an agent knows or can call. */
export type AgentSkill =
  /** The reasoning engine itself. */
  | { readonly kind: 'agent'; readonly name: string }
  /** A document of the host. */
  | { readonly kind: 'file'; readonly source: MountSource }
  /** A document of a repository on GitHub; null: the one at its root. */
  | { readonly kind: 'remote'; readonly repository: string; readonly skill: string | null }
  | { readonly kind: 'cli'; readonly name: string }
  | { readonly kind: 'mcp'; readonly name: string }
  | { readonly kind: 'image'; readonly image: string; readonly guestPath: string; readonly readOnly: boolean }
  | {
      readonly kind: 'server';
      readonly command: string;
      readonly args: readonly string[];
      readonly env: readonly EnvPlan[];
    }
  | { readonly kind: 'inline'; readonly name: string; readonly content: string };

/**
 * A step machine, whose prompts an agent in the stage's VM answers. The final output of the step machine, as JSON, is the output of
 * the stage.
 */
export interface StepMachineWork {
  readonly kind: 'skill';
  /** The entry of a skill, or its folder. A worker runs it only where it is one of those that the worker was given. */
  readonly source: MountSource;
  readonly params: Readonly<Record<string, JsonValue>>;
  /** As an agent has the next three. */
  readonly llm: LlmPlan | null;
  readonly skills: readonly AgentSkill[];
  readonly env: readonly EnvPlan[];
  /** What the turns of an attempt's agent may take together; absent: as much as they like. */
  readonly budget?: BudgetPlan | undefined;
  /** What lies at `source` on the worker that admitted the run; a plan does not say it by itself. */
  readonly code?: StepMachineCodePlan | undefined;
  /** As an agent has it. */
  readonly played?: true | undefined;
}

/** Which code a session of the stage runs, and no other. */
export interface StepMachineCodePlan {
  /** The skill's own name. */
  readonly skill: string;
  readonly version: string;
  /** SHA-256 of its bundle, in hex. */
  readonly codeHash: string;
}

/** A VM that is kept for a terminal. This build refuses it: `unsupported.ts`. */
export interface ShellWork {
  readonly kind: 'shell';
  readonly env: readonly EnvPlan[];
}

/** What a stage comes to without doing its work. */
export interface MockPlan {
  readonly output: string;
  /** Anything but 0 fails the stage. */
  readonly exitCode: number;
}

/**
 * Nothing is done, and the stage comes to what its author wrote for it. Admission puts it in place of the stage's work where the
 * request of the run asks for that, and refuses a plan that declares it itself.
 */
export interface MockWork extends MockPlan {
  readonly kind: 'mock';
}

/** A question to people. The stage has no VM and waits; the answer, as JSON, is its output: `ApprovalAnswer`. */
export interface ApprovalWork {
  readonly kind: 'approval';
  readonly message: string;
  /** Who is asked, for people: nothing here checks who answers. */
  readonly by: readonly string[];
  /** Null: it waits for as long as the run may. */
  readonly timeoutMs: number | null;
  /** What stands for an answer once `timeoutMs` are over. */
  readonly onTimeout: TimeoutAnswer;
  /** What an approval says beside yes. */
  readonly fields: readonly ApprovalField[];
}

/** Nothing but time. The stage has no VM, no slot and no output. One of the three says how long. */
export interface WaitWork {
  readonly kind: 'wait';
  /** From the moment at which the stage starts. */
  readonly forMs: number | null;
  /** Milliseconds since 1970; one that has passed ends the wait at once. */
  readonly untilMs: number | null;
  /** A time as a spec writes it, with values of expressions in it: `texts` of the stage says which. Absent: `untilMs` says it, or `forMs`. */
  readonly until?: string | undefined;
}

/**
 * The end of a part: a spec that another one uses, whose stages stand in the plan under the name of this one and a dot. This
 * stage has no VM and no slot. It starts when the part has succeeded, and its output is that of the part.
 */
export interface PartWork {
  readonly kind: 'part';
  /** The part's file, from the folder of the spec that uses it; for people. */
  readonly source: string;
  /** All that belong to the part. */
  readonly stages: readonly string[];
  readonly output: PartOutput;
}

export type PartOutput =
  | { readonly kind: 'stage'; readonly stage: string }
  /** As `OutputPlan` has it, under the names that the stages have in the part. */
  | { readonly kind: 'merge'; readonly of: readonly { readonly name: string; readonly stage: string }[] };

export const TIMEOUT_ANSWERS = ['approve', 'reject', 'fail'] as const;
export type TimeoutAnswer = (typeof TIMEOUT_ANSWERS)[number];

export const FIELD_TYPES = ['text', 'number', 'boolean', 'choice'] as const;
export type FieldType = (typeof FIELD_TYPES)[number];

export interface ApprovalField {
  /** Unique in the approval. */
  readonly name: string;
  readonly type: FieldType;
  /** False: an answer may leave it out. */
  readonly required: boolean;
  readonly description: string;
  /** With `choice`, at least one; else none. */
  readonly choices: readonly string[];
}

export interface EnvPlan {
  readonly name: string;
  readonly value: EnvValue;
}

/**
 * `fromHost` names a variable that the stage activity resolves; its value never enters history. It must be set, unless
 * `ifUnset` says what stands for it then.
 */
export type EnvValue =
  | { readonly kind: 'literal'; readonly text: string }
  | { readonly kind: 'from-host'; readonly fromHost: string; readonly ifUnset?: 'empty' | undefined };

export type StdinPlan = { readonly kind: 'none' } | { readonly kind: 'stage-output'; readonly stage: string };

export type InputPlan =
  | { readonly kind: 'none' }
  /** The run's `--input`; of a stage in a part that is done for each item, the item. */
  | { readonly kind: 'run-input' }
  /** The output of one stage, as it is. */
  | { readonly kind: 'carry'; readonly stage: string }
  /** A JSON array `[{"name","output"}]` of the outputs of a fan-out's boxes, in spec order. */
  | { readonly kind: 'merge'; readonly stages: readonly string[] };

export interface StageInputPlan {
  readonly fromStage: string;
  readonly output: string;
  readonly guestPath: string;
  /** True: nothing is put there when `fromStage` was passed. */
  readonly optional: boolean;
}

export interface StageOutputPlan {
  readonly name: string;
  readonly guestPath: string;
}

/** It is unpacked at `guestPath`, which is the working folder of an agent. What it leaves is called as in `workspace.ts`. */
export interface WorkspacePlan {
  readonly from: WorkspaceSource;
  readonly guestPath: string;
  /** The stage leaves no changes. Absent: it leaves them. */
  readonly changes?: 'none' | undefined;
  /** The working folder, as a path from `guestPath`; absent: `guestPath` itself. */
  readonly subfolder?: string | undefined;
}

/** As a spec says it. */
export const WORKSPACE_CHANGES = ['keep', 'none'] as const;

export type WorkspaceSource =
  /** A repository of the host; `ref` null: what is checked out there. */
  | {
      readonly kind: 'folder';
      readonly source: MountSource;
      readonly ref: string | null;
      /** With what is not committed, and not ignored. */
      readonly includeDirty: boolean;
    }
  /** `https://`, fetched by git of the host; `ref` null: its default branch. */
  | { readonly kind: 'url'; readonly url: string; readonly ref: string | null }
  /** The workspace of an earlier stage, as that left it. */
  | { readonly kind: 'stage'; readonly stage: string };

export interface RetryPlan {
  /** Attempts in all that the author allows for a failed command; 1 is no retry. Lost VMs are counted apart. */
  readonly maxAttempts: number;
  /** The pause before the second attempt. */
  readonly backoffMs: number;
  /** What each further pause is multiplied with; absent: all are the same. */
  readonly factor?: number | undefined;
  /** The longest pause; absent: a day. */
  readonly maxBackoffMs?: number | undefined;
  /** Error codes, or `exit:N`, of failures that are final; absent: none. */
  readonly nonRetryable?: readonly string[] | undefined;
}

/** A VM that one or more stages happen in. */
export interface ScopePlan {
  readonly id: string;
  /** Stages of the scope, in spec order. */
  readonly stages: readonly string[];
  /** True for a scope of one stage whose attempts all run in the same VM, as in a shared scope. Absent: each attempt has a new VM. */
  readonly keepsVm?: true | undefined;
  readonly sandbox: SandboxPlan;
}

/** `microvm` > `process` > `none`; a run records which one it got. */
export const ISOLATION_LEVELS = ['microvm', 'process', 'none'] as const;
export type IsolationLevel = (typeof ISOLATION_LEVELS)[number];

/** `auto` takes the best real backend; `mock` is never chosen unless it is written. */
export const SANDBOX_MODES = ['auto', 'qemu', 'mock'] as const;
export type SandboxMode = (typeof SANDBOX_MODES)[number];

/** `ro` is live and read-only; `rw` is copied in before the stage and back after its success. */
export const MOUNT_MODES = ['ro', 'rw'] as const;
export type MountMode = (typeof MOUNT_MODES)[number];

/** Whether a copy back writes files of git's own. */
export const MOUNT_GIT = ['protected', 'writable'] as const;

export interface SandboxPlan {
  readonly mode: SandboxMode;
  /** The weakest isolation that is accepted. */
  readonly isolation: IsolationLevel;
  readonly memoryMib: number;
  readonly vcpus: number;
  readonly diskMib: number;
  readonly mounts: readonly MountPlan[];
  /** What the guest's root is; absent: the image that every VM boots, with busybox alone. */
  readonly image?: ImagePlan | undefined;
  /** What its guest reaches; absent: nothing. */
  readonly egress?: EgressPlan | undefined;
  /** How long the VM stays after a stage in it has failed. Absent: it ends with its last stage. */
  readonly keepOnFailureMs?: number | undefined;
  /** What no backend of this build gives, so that a plan with one is refused (`unsupported.ts`); absent: nothing. */
  readonly needs?: SandboxNeeds | undefined;
}

/** Of VMs that failed stages leave. */
export const RETENTION = {
  defaultMs: 15 * 60_000,
  minMs: 1_000,
  maxMs: 60 * 60_000,
  /** Of one run on one host; a VM beyond them ends as always. */
  vmsOfRun: 8,
} as const;

/** Images by what they are made of. */
export type ImagePlan =
  /** Debian's packages: bash, git, node, python3 and more. */
  | { readonly kind: 'dev' }
  /** A disk that `voidbox run` made of a folder, a tar or an OCI layout, by the hash of what is in it: no path of a host. */
  | { readonly kind: 'disk'; readonly sha256: string };

export interface SandboxNeeds {
  /** Of plans that builds without `egress` have made. */
  readonly network?: true | undefined;
  /** A container image, or the absolute path of a folder, a tar or an OCI layout: `voidbox run` puts a disk in its place. */
  readonly image?: string | undefined;
  /** A container image that holds kernel and initramfs. */
  readonly guestImage?: string | undefined;
  /** Absolute paths of a host. */
  readonly kernel?: string | undefined;
  readonly initramfs?: string | undefined;
  readonly snapshot?: string | undefined;
}

export interface MountPlan {
  readonly source: MountSource;
  readonly guestPath: string;
  readonly mode: MountMode;
  /** With `rw`: a copy back writes repositories of git, too. Absent: it leaves them as they are. */
  readonly git?: 'writable' | undefined;
}

/** Admission finds the folder on the host that runs the VM, and checks it against the worker's policy. */
export type MountSource =
  /** An absolute path on that host. */
  | { readonly kind: 'host'; readonly path: string }
  /** A path from the spec's folder, which the client hands over beside the plan; `.` is the folder itself. */
  | { readonly kind: 'spec-folder'; readonly path: string };

/** Data too large for history: bytes in the content-addressed artifact store. */
export interface DataRef {
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly mediaType: string;
  /** The difference between the bytes and the data that the stage left. Absent: there is no difference. */
  readonly redacted?: RedactedData;
}

/** Values of host variables that Voidbox replaced in data with `[redacted]`. */
export interface RedactedData {
  /** Names of these variables, at most 8. */
  readonly variables: readonly string[];
  /** The data was a JSON list or mapping of at most 1 MiB, and is not JSON now. */
  readonly breaksJson: boolean;
}

export const REDACTED_LIMITS = {
  variables: 8,
  /** UTF-16 units of the name of a variable in a ref; a longer name is cut. */
  nameCharacters: 256,
  jsonBytes: 1024 * 1024,
} as const;
