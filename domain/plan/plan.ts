/**
 * A Plan is what a run carries out: every name resolved, every default filled, JSON-safe, and free of values that
 * belong to one host. `compilePlan` in `domain/language` makes it, and nothing edits it afterwards. Arrays have the
 * order of the spec; everything that depends on order uses that order.
 */
import type { EgressPlan } from './egress.ts';

/** The Plan format that this build reads and writes. A change of meaning needs a new number and an ADR. */
export const PLAN_VERSION = 1;

/** Limits that the compiler enforces; the workflow and the activities rely on them. */
export const PLAN_LIMITS = {
  /** Inline values (input, carried state) that are larger travel as a DataRef. */
  inlineBytes: 2 * 1024,
  /** The recorded form, without values that equal a default: `countPlanBytes` in `wire.ts`. */
  planBytes: 16 * 1024 * 1024,
  /** A larger plan travels to admission as a DataRef: Temporal carries 2 MiB, and keeps it in history. */
  inlinePlanBytes: 512 * 1024,
  /**
   * The part of a plan that the workflow holds (names, edges and limits): `machineBytes` in `pipeline/machine-plan.ts`.
   */
  machineBytes: 512 * 1024,
  stages: 2_000,
  /** Stages with `finally`. A history that is full still has room for this many. */
  finallyStages: 16,
  /** Named outputs of all stages together: each is a ref in carried state. */
  outputs: 2_000,
  mountsPerScope: 16,
  /** JSON of an approval. Its event contains all of it. */
  approvalBytes: 128 * 1024,
  /** Fields of one approval. */
  approvalFields: 32,
  approvers: 32,
  choices: 64,
  /** UTF-8 of the output of a mock. */
  mockBytes: 64 * 1024,
  /** Entries in `nonRetryable` of one `retry`. */
  nonRetryable: 32,
  /** Expressions in the texts of one stage. */
  textSources: 64,
  /** UTF-16 code units of an approval's message, as it is written and with its expressions filled in. */
  messageCharacters: 4 * 1024,
  /**
   * The longest wait. It counts from the admission of the run, or from the start of the stage if the time is known only
   * then.
   */
  waitMs: 400 * 24 * 3_600_000,
  /** Agent skills of one agent. */
  skills: 64,
  /** JSON of the params of a step machine. */
  skillParamsBytes: 256 * 1024,
  /** UTF-16 code units of a reference to an image, a snapshot or a model, and of a URL. */
  referenceCharacters: 512,
  nameLength: 64,
  /** Visits of one loop. */
  visits: 1_000,
  /** Visits of all stages in loops together: each stage counts as often as it may run. */
  stageVisits: 5_000,
  /** Items of one list. */
  items: 10_000,
  /** Levels of lists and mappings within one item of such a list. */
  itemLevels: 200,
  /**
   * Outputs of earlier stages, named or not, that a stage with items takes. A window's history has them once for each
   * attempt.
   */
  itemInputs: 32,
  /** Attempts that one item may add to a window's history: `attemptsOfItem` in `pipeline/item-plan.ts`. */
  itemAttempts: 3_000,
  /** Windows of one stage. The run's history has each of them; uneven shares make some more. */
  itemWindows: 1_000,
  /** Windows of one list within an item: the window around it counts them as attempts of that item. */
  nestedWindows: 14,
  /** Items of a list within an item, summed over all items of the lists around it. */
  nestedItems: 100_000,
  /** Items of nested lists that run at the same time: the product of their `maxParallel`. */
  nestedParallel: 1_000,
  /** Levels of parts within parts. */
  partDepth: 4,
  /** Files that a spec uses, directly or through its parts. */
  partFiles: 64,
  /** Members on the way to a list in a stage's output. */
  listPath: 16,
  /** JSON of a list of items, which a worker holds in memory. */
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
  /** The result of the run. */
  readonly output: OutputPlan;
  /** The most stages that run at the same time; free memory on the host may lower it. */
  readonly maxParallel: number;
  /** Time for the whole run, without the time in which the run only waits. Absent: it has no limit. */
  readonly timeoutMs?: number | undefined;
  /** Time for the whole run, with all waits. Only the start of a run sets it, never a spec. Absent: it has no limit. */
  readonly deadlineMs?: number | undefined;
  /** Time for all stages with `finally` together. Absent: the plan has no such stage. */
  readonly graceMs?: number | undefined;
  /** The limits for all attempts of all agents together. Absent: there is no limit. */
  readonly budget?: BudgetPlan | undefined;
  /** Host variables that some stage reads; the client hands them to the worker outside of history. */
  readonly hostVariables: readonly string[];
}

export type OutputPlan =
  /** The standard output (or output file) of one stage, as it is. */
  | { readonly kind: 'stage'; readonly stage: string }
  /** A JSON array `[{"name","output"}]` of the outputs of several stages, in this order. */
  | { readonly kind: 'merge'; readonly stages: readonly string[] };

/** One piece of work, in a VM if it needs one. */
export interface StagePlan {
  /** Unique in the plan; `[A-Za-z0-9._-]{1,64}`. */
  readonly id: string;
  /** The VM in which the work runs. Null: the work uses no VM, and so no slot of `maxParallel` either. */
  readonly scope: string | null;
  /** The conditions under which this stage starts: every edge must hold. */
  readonly after: readonly EdgePlan[];
  /** One of the edges on a failure must hold, instead of each. Absent: each must hold. */
  readonly anyFailure?: true | undefined;
  /** Decides, once every edge holds, whether the stage runs or is passed over. Null: the stage runs. */
  readonly when: ConditionPlan | null;
  /** The list for whose items the command, or the part that this stage ends, runs once each. Absent: it runs once. */
  readonly each?: EachPlan | undefined;
  /**
   * The stage that ends the part to which this stage belongs, if that part runs for each item; that stage has `each`.
   * If such parts are nested, it is the innermost. Absent: this is one of the run's own stages.
   */
  readonly of?: string | undefined;
  /** The loop whose visits this stage ends. Its work has the kind `part`. Absent: it ends no loop. */
  readonly loop?: LoopPlan | undefined;
  /** In a loop: the most visits in which this stage runs, of all loops around it together. Absent: it is in no loop. */
  readonly visits?: number | undefined;
  /**
   * For a first stage of a loop: the stages that end the loops around it, the innermost first. Its input is the output
   * that such a stage had in the previous visit; the first stage with an output counts. Absent: it takes no such
   * output.
   */
  readonly again?: readonly string[] | undefined;
  readonly work: WorkPlan;
  /**
   * The result of the stage in a run that mocks it. An admitted plan has no `mock`: its mocked stages have `MockWork`.
   */
  readonly mock?: MockPlan | undefined;
  /** Texts of the work that Voidbox fills in when an attempt begins. Absent: the work has all texts as they are. */
  readonly texts?: TextsPlan | undefined;
  /** The content of the stage's `/workspace/input.json`. */
  readonly input: InputPlan;
  /** Folders or files of earlier stages that Voidbox puts into the guest before the command starts. */
  readonly inputs: readonly StageInputPlan[];
  /** Folders or files that later stages may take. */
  readonly outputs: readonly StageOutputPlan[];
  /** A git repository for the work; the stage leaves its changes. Absent: none. */
  readonly workspace?: WorkspacePlan | undefined;
  /**
   * The guest path of the file that is the stage's output, instead of its standard output. If the file is missing at
   * the end, the stage fails.
   */
  readonly outputFile: string | null;
  /** A JSON Schema for the output, or for the output of each item. Absent: any output is allowed. */
  readonly outputSchema?: JsonValue | undefined;
  /**
   * The time limit of one attempt. The keeper counts it if the work is a command. A service has `SERVICE_TIMEOUT_MS`.
   */
  readonly timeoutMs: number;
  readonly retry: RetryPlan;
  /**
   * The failure is tolerated: stages that wait for a success continue without its data, and the run may succeed.
   * Absent: no.
   */
  readonly continueOnError?: true | undefined;
  /**
   * It starts once every stage without `finally` has ended, however it ended, and also when the run is cancelled.
   * Absent: no.
   */
  readonly finally?: true | undefined;
  /** The most bytes of standard output and error together; more bytes fail the stage with `stage/output-limit`. */
  readonly maxOutputBytes: number;
}

/** An edge from an earlier stage. Only `success` edges carry data. */
export interface EdgePlan {
  readonly stage: string;
  readonly on: EdgeCondition;
}

/** A condition, with everything that it reads. */
export interface ConditionPlan {
  /** An expression in CEL whose value is a boolean. */
  readonly source: string;
  /** The stages that it reads, each once, in the order of the source; `after` has the edges from them. */
  readonly stages: readonly string[];
  /** Values of the parameters that it reads, by name. */
  readonly params: Readonly<Record<string, ConditionValue>>;
}

/** Texts that contain values of expressions. The work itself has the texts as the author wrote them. */
export interface TextsPlan {
  /** Expressions in CEL, each once. */
  readonly sources: readonly string[];
  /** The stages whose outputs the expressions read, each once; `after` has edges on their success. */
  readonly stages: readonly string[];
  /** Values of the parameters that the expressions read, by name. */
  readonly params: Readonly<Record<string, ConditionValue>>;
  readonly texts: readonly TextPlan[];
}

export interface TextPlan {
  readonly place: TextPlace;
  /** Literal text, and indices of `sources`. */
  readonly parts: readonly (string | number)[];
}

export type TextPlace =
  | { readonly kind: 'arg'; readonly index: number }
  /** A variable in `env` of the work. */
  | { readonly kind: 'env'; readonly name: string }
  /** The message of an approval. */
  | { readonly kind: 'message' }
  /** The prompt of an agent. */
  | { readonly kind: 'prompt' }
  /** The time of a wait. */
  | { readonly kind: 'until' }
  /** A text among the params of a step machine. */
  | { readonly kind: 'param'; readonly name: string };

/** A JSON value. */
export type ConditionValue =
  | string
  | number
  | boolean
  | null
  | readonly ConditionValue[]
  | { readonly [key: string]: ConditionValue };

/**
 * A list of items. The stage's command or part runs for each item, in VMs of its own. The item is the command's
 * `/workspace/input.json`, or the input of the part. The stage's output is the list of results, in the order of the
 * items. If the stage ends a part, edges from stages of the part hold within an item; all other edges hold before the
 * first item.
 */
export interface EachPlan {
  readonly list: ListPlan;
  /** The most items that run at the same time; the run's own `maxParallel` also applies. */
  readonly maxParallel: number;
  /** Once more than `allowFailures` items have failed, running items are cancelled and no other item starts. */
  readonly failFast: boolean;
  /** The stage succeeds with at most this many failed items. */
  readonly allowFailures: number;
}

/** A loop: its stages run again until a condition holds after them. */
export interface LoopPlan {
  /** The condition that ends the loop, evaluated once all stages of a visit have ended. */
  readonly until: ConditionPlan;
  readonly maxVisits: number;
  /** The result of the loop if the condition does not hold after the last visit. */
  readonly onLimit: OnLimit;
}

export const ON_LIMITS = ['fail', 'pass'] as const;
export type OnLimit = (typeof ON_LIMITS)[number];

export type ListPlan =
  | { readonly kind: 'inline'; readonly items: readonly JsonValue[] }
  /**
   * A list in the JSON output of one stage. `path` has the names of members on the way to it; if empty, the whole
   * output is the list.
   */
  | { readonly kind: 'stage-output'; readonly stage: string; readonly path: readonly string[] };

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

export const EDGE_CONDITIONS = ['success', 'end', 'failure'] as const;

/**
 * `success`: the stage succeeded, was passed over because its condition did not hold, or failed with `continueOnError`.
 * `end`: it ended, however it did. `failure`: it failed. Once the stage can no longer fail, a stage that waits for its
 * failure is skipped.
 */
export type EdgeCondition = (typeof EDGE_CONDITIONS)[number];

/**
 * The task of a stage. Code that reads `kind` uses a switch without a default, so that the compiler names each place
 * that a new kind has to touch. Most of this code is in `work.ts`.
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
  /** It runs until the run is cancelled: `timeoutMs` of its stage is `SERVICE_TIMEOUT_MS`. */
  readonly service?: true | undefined;
}

/** A coding agent with a prompt, in the stage's VM. `unsupported.ts` lists the features that this build cannot run. */
export interface AgentWork {
  readonly kind: 'agent';
  /** `task` ends with its output, `service` runs until the run is cancelled, `interactive` has a terminal. */
  readonly mode: AgentMode;
  /** Empty only if `mode` is `interactive`. */
  readonly prompt: string;
  /** Null: the worker chooses. */
  readonly llm: LlmPlan | null;
  readonly skills: readonly AgentSkill[];
  readonly env: readonly EnvPlan[];
  /** It can exchange messages with the other agents of the run. */
  readonly messaging: boolean;
  /** The limits for one attempt. Absent: there is no limit. */
  readonly budget?: BudgetPlan | undefined;
  /**
   * The mock agent plays this agent, without a model. Only admission sets it, if the run asks for it. Absent: the real
   * agent runs.
   */
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
  /** Null, as in the next two fields: the provider's own value. */
  readonly model: string | null;
  readonly baseUrl: string | null;
  /** The name of a variable of the host. */
  readonly apiKeyEnv: string | null;
  readonly credentialProxy: boolean;
  /** The price of calls of the model. Absent: the cost is what the agent's command line reports. */
  readonly price?: PricePlan | undefined;
}

/** At least one limit. Usage that equals a limit is still within it. */
export interface BudgetPlan {
  readonly maxCostUsd?: number | undefined;
  /** Input and output tokens together, cached input included. */
  readonly maxTokens?: number | undefined;
  /** Calls of the model. */
  readonly maxTurns?: number | undefined;
}

/** US dollars per million tokens. */
export interface PricePlan {
  readonly inputUsd: number;
  /** The price of input that the provider had in its cache. Absent: it equals `inputUsd`. */
  readonly cachedInputUsd?: number | undefined;
  readonly outputUsd: number;
}

/** An ability of an agent: a document, a program, a server or an image. */
export type AgentSkill =
  /** The reasoning engine itself. */
  | { readonly kind: 'agent'; readonly name: string }
  /** A document on the host. */
  | { readonly kind: 'file'; readonly source: MountSource }
  /** A document of a repository on GitHub. Null: the document at its root. */
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
 * A step machine, whose prompts an agent in the stage's VM answers. Its final output, as JSON, is the output of the
 * stage.
 */
export interface StepMachineWork {
  readonly kind: 'skill';
  /** The entry or the folder of a step machine. A worker runs it only if it was started with this step machine. */
  readonly source: MountSource;
  readonly params: Readonly<Record<string, JsonValue>>;
  /** This field and the next two mean the same as in `AgentWork`. */
  readonly llm: LlmPlan | null;
  readonly skills: readonly AgentSkill[];
  readonly env: readonly EnvPlan[];
  /** The limits for all turns of the agent in one attempt together. Absent: there is no limit. */
  readonly budget?: BudgetPlan | undefined;
  /** The code at `source` on the worker that admitted the run. Only admission sets it, never a plan from outside. */
  readonly code?: StepMachineCodePlan | undefined;
  /** The same as in `AgentWork`. */
  readonly played?: true | undefined;
}

/** The only code that a session of the stage runs. */
export interface StepMachineCodePlan {
  /** The skill's own name. */
  readonly skill: string;
  readonly version: string;
  /** SHA-256 of its bundle, in hex. */
  readonly codeHash: string;
}

/** A VM that is kept for a terminal. This build rejects it: `unsupported.ts`. */
export interface ShellWork {
  readonly kind: 'shell';
  readonly env: readonly EnvPlan[];
}

/** The result of a stage that does not do its work. */
export interface MockPlan {
  readonly output: string;
  /** Any value but 0 fails the stage. */
  readonly exitCode: number;
}

/**
 * Does nothing: the stage has the result that its author wrote for it. Admission replaces the stage's work with it if
 * the run requests that. Admission rejects a plan that already contains it.
 */
export interface MockWork extends MockPlan {
  readonly kind: 'mock';
}

/** A question to people. The stage has no VM and waits; its output is the answer as JSON: `ApprovalAnswer`. */
export interface ApprovalWork {
  readonly kind: 'approval';
  readonly message: string;
  /** The names of tokens or groups that may answer over TCP; all other answers only claim a name. Empty: any. */
  readonly by: readonly string[];
  /**
   * False: an answer needs the proof of a token that did not start the run, or of the owner of the state folder. True:
   * any answer counts.
   */
  readonly selfApproval: boolean;
  /** Null: it waits until the run ends. */
  readonly timeoutMs: number | null;
  /** The answer that Voidbox uses once `timeoutMs` are over. */
  readonly onTimeout: TimeoutAnswer;
  /** The values that an answer contains in addition to the approval. */
  readonly fields: readonly ApprovalField[];
}

/** A pause. The stage has no VM, no slot and no output. One of the three fields sets its length. */
export interface WaitWork {
  readonly kind: 'wait';
  /** Milliseconds from the start of the stage. */
  readonly forMs: number | null;
  /** Milliseconds since 1970; a time in the past ends the wait at once. */
  readonly untilMs: number | null;
  /**
   * A time as a spec writes it, with values of expressions: `texts` of the stage has them. Absent: `untilMs` or `forMs`
   * sets the length.
   */
  readonly until?: string | undefined;
}

/**
 * The end of a part: a spec that another spec uses. The plan contains the part's stages, named after this stage with a
 * dot. This stage has no VM and no slot. It starts when the part has succeeded, and has the part's output.
 */
export interface PartWork {
  readonly kind: 'part';
  /** The path of the part's file from the folder of the spec that uses it; for display. */
  readonly source: string;
  /** All stages of the part. */
  readonly stages: readonly string[];
  readonly output: PartOutput;
}

export type PartOutput =
  | { readonly kind: 'stage'; readonly stage: string }
  /** The same as in `OutputPlan`, with the names that the stages have in the part. */
  | { readonly kind: 'merge'; readonly of: readonly { readonly name: string; readonly stage: string }[] };

export const TIMEOUT_ANSWERS = ['approve', 'reject', 'fail'] as const;
export type TimeoutAnswer = (typeof TIMEOUT_ANSWERS)[number];

export const FIELD_TYPES = ['text', 'number', 'boolean', 'choice'] as const;
export type FieldType = (typeof FIELD_TYPES)[number];

export interface ApprovalField {
  /** Unique in the approval. */
  readonly name: string;
  readonly type: FieldType;
  /** False: an answer may omit the field. */
  readonly required: boolean;
  readonly description: string;
  /** At least one if the type is `choice`; empty for other types. */
  readonly choices: readonly string[];
}

export interface EnvPlan {
  readonly name: string;
  readonly value: EnvValue;
}

/**
 * `fromHost` names a variable that the stage activity resolves; its value never enters history. It must be set, unless
 * `ifUnset` sets a value for that case.
 */
export type EnvValue =
  | { readonly kind: 'literal'; readonly text: string }
  | { readonly kind: 'from-host'; readonly fromHost: string; readonly ifUnset?: 'empty' | undefined };

export type StdinPlan = { readonly kind: 'none' } | { readonly kind: 'stage-output'; readonly stage: string };

export type InputPlan =
  | { readonly kind: 'none' }
  /** The run's `--input`; in a part that runs for each item, the item. */
  | { readonly kind: 'run-input' }
  /** The output of one stage, as it is. */
  | { readonly kind: 'carry'; readonly stage: string }
  /** A JSON array `[{"name","output"}]` of the outputs of a fan-out's boxes, in spec order. */
  | { readonly kind: 'merge'; readonly stages: readonly string[] };

export interface StageInputPlan {
  readonly fromStage: string;
  readonly output: string;
  readonly guestPath: string;
  /** True: if `fromStage` was passed over, Voidbox puts nothing there. */
  readonly optional: boolean;
}

export interface StageOutputPlan {
  readonly name: string;
  readonly guestPath: string;
}

/**
 * Voidbox unpacks it at `guestPath`, which is the working folder of an agent. `workspace.ts` has the names of its
 * outputs.
 */
export interface WorkspacePlan {
  readonly from: WorkspaceSource;
  readonly guestPath: string;
  /** The stage leaves no changes. Absent: it leaves them. */
  readonly changes?: 'none' | undefined;
  /** The working folder, as a path from `guestPath`; absent: `guestPath` itself. */
  readonly subfolder?: string | undefined;
}

/** The values that a spec may set. */
export const WORKSPACE_CHANGES = ['keep', 'none'] as const;

export type WorkspaceSource =
  /** A repository on the host. `ref` null: the commit that is checked out there. */
  | {
      readonly kind: 'folder';
      readonly source: MountSource;
      readonly ref: string | null;
      /** True: with changes that are not committed and not ignored. */
      readonly includeDirty: boolean;
    }
  /** `https://`, fetched by git of the host. `ref` null: its default branch. */
  | { readonly kind: 'url'; readonly url: string; readonly ref: string | null }
  /** The workspace of an earlier stage, as that stage left it. */
  | { readonly kind: 'stage'; readonly stage: string };

export interface RetryPlan {
  /**
   * The most attempts that the author allows for a failed command; 1 means no retry. Attempts with a lost VM are
   * counted separately.
   */
  readonly maxAttempts: number;
  /** The pause before the second attempt. */
  readonly backoffMs: number;
  /** The factor by which each further pause grows. Absent: all pauses are equal. */
  readonly factor?: number | undefined;
  /** The longest pause; absent: a day. */
  readonly maxBackoffMs?: number | undefined;
  /** Error codes, or `exit:N`, of failures that are not retried. Absent: none. */
  readonly nonRetryable?: readonly string[] | undefined;
}

/** A VM in which one or more stages run. */
export interface ScopePlan {
  readonly id: string;
  /** Stages of the scope, in spec order. */
  readonly stages: readonly string[];
  /**
   * True for a scope of one stage whose attempts all run in the same VM, as in a shared scope. Absent: each attempt has
   * a new VM.
   */
  readonly keepsVm?: true | undefined;
  /**
   * After each step the disk of the shared VM is saved. If the VM is lost, the next one starts with the newest save,
   * and only later steps run again. Absent: nothing is saved, and all steps run again.
   */
  readonly checkpoint?: 'each-step' | undefined;
  readonly sandbox: SandboxPlan;
}

/** The values that a spec may set. */
export const CHECKPOINTS = ['each-step', 'off'] as const;

/** `microvm` > `process` > `none`; a run records which one it got. */
export const ISOLATION_LEVELS = ['microvm', 'process', 'none'] as const;
export type IsolationLevel = (typeof ISOLATION_LEVELS)[number];

/** The names of backends, and `auto`, the best real one. Voidbox uses `mock` only if the spec names it. */
export const SANDBOX_MODES = ['auto', 'qemu', 'vmm', 'mock'] as const;
export type SandboxMode = (typeof SANDBOX_MODES)[number];

/** `ro` is live and read-only; `rw` is copied in before the stage, and copied back after its success. */
export const MOUNT_MODES = ['ro', 'rw'] as const;
export type MountMode = (typeof MOUNT_MODES)[number];

/** Whether a copy back writes the files of git itself. */
export const MOUNT_GIT = ['protected', 'writable'] as const;

export interface SandboxPlan {
  readonly mode: SandboxMode;
  /** The weakest isolation that is accepted. */
  readonly isolation: IsolationLevel;
  readonly memoryMib: number;
  readonly vcpus: number;
  readonly diskMib: number;
  readonly mounts: readonly MountPlan[];
  /** The root file system of the guest. Absent: the image that every VM boots, with busybox only. */
  readonly image?: ImagePlan | undefined;
  /** The destinations that the guest may reach. Absent: none. */
  readonly egress?: EgressPlan | undefined;
  /** How long the VM stays after a stage in it has failed. Absent: it ends with its last stage. */
  readonly keepOnFailureMs?: number | undefined;
  /** `cold`: the VM boots, and no snapshot is made of it. Absent: it starts from a snapshot if its host has one. */
  readonly start?: 'cold' | undefined;
  /**
   * The prepared sandbox of the run's host with whose disk the VM starts: its name, or the beginning of its id. Absent:
   * an empty disk.
   */
  readonly prepared?: string | undefined;
  /**
   * Needs that no backend of this build can meet, so Voidbox rejects a plan with one (`unsupported.ts`). Absent: none.
   */
  readonly needs?: SandboxNeeds | undefined;
}

/** Limits of retained VMs, which failed stages leave. */
export const RETENTION = {
  defaultMs: 15 * 60_000,
  minMs: 1_000,
  maxMs: 60 * 60_000,
  /** Retained VMs of one run on one host; a further VM ends with its last stage. */
  vmsOfRun: 8,
} as const;

/** Images, by their source. */
export type ImagePlan =
  /** Debian's packages: bash, git, node, python3 and more. */
  | { readonly kind: 'dev' }
  /**
   * A disk that `voidbox run` made of a folder, a tar or an OCI layout. The hash of its content names it, so the plan
   * has no path of a host.
   */
  | { readonly kind: 'disk'; readonly sha256: string };

export interface SandboxNeeds {
  /** Only plans from builds without `egress` have it. */
  readonly network?: true | undefined;
  /**
   * A container image, or the absolute path of a folder, a tar or an OCI layout. `voidbox run` replaces it with a disk.
   */
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
  /** With `rw`: a copy back also writes git repositories. Absent: it leaves them unchanged. */
  readonly git?: 'writable' | undefined;
}

/** Admission finds the folder on the host that runs the VM, and checks it against the worker's policy. */
export type MountSource =
  /** An absolute path on that host. */
  | { readonly kind: 'host'; readonly path: string }
  /** A path from the spec's folder, which the client sends with the plan; `.` is the folder itself. */
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
