/** The shapes of requests and answers. Generated from the OpenAPI document: `UPDATE=1 npx vitest run server/client-types`. */

export interface ActionResults {
  readonly results: readonly {
    readonly runId: string;
    readonly outcome: 'done' | 'planned' | 'refused';
    readonly state: string | null;
    readonly startedRunId: string | null;
    readonly code: string | null;
    readonly detail: string | null;
  }[];
  /** The filter has further runs, which are not changed. */
  readonly hasMore: boolean;
}

export interface Answer {
  readonly decision: 'approve' | 'reject';
  /** Absent: the only stage of the run that asks. */
  readonly stage?: string | undefined;
  /** The name of the person. The answer of a token has the name of the token. */
  readonly by?: string | undefined;
  readonly comment?: string | undefined;
  /** The fields that the question has, by name. */
  readonly fields?: Readonly<Record<string, string | number | boolean>> | undefined;
}

export interface AnswerOfStep {
  readonly step: string;
  readonly turn: number;
  /** The answer; JSON of at most 256 KiB. */
  readonly output?: unknown;
}

export interface AnswerReceipt {
  readonly runId: string;
  readonly stage: string;
  readonly attempt: number;
  readonly decision: string;
  readonly by: string | null;
  /** A token or a link proved who sent the answer; else `by` is a claim. */
  readonly verified: boolean;
  readonly comment: string | null;
  readonly at: string;
}

export interface Artifact {
  readonly stage: string;
  /** Null: the own output of the stage. */
  readonly name: string | null;
  readonly kind: 'file' | 'folder' | 'damaged';
  /** The stage did not succeed. */
  readonly partial: boolean;
  readonly sizeBytes: number;
  readonly sha256: string;
  readonly mediaType: string;
}

export interface Artifacts {
  readonly runId: string;
  readonly state: string;
  readonly artifacts: readonly Artifact[];
}

export interface Blob {
  readonly sha256: string;
  readonly sizeBytes: number;
}

export interface CancelledRun {
  readonly runId: string;
  /** `cancelling`: it has not ended yet. */
  readonly state: string;
  readonly wasRunning: boolean;
}

export interface CancelledSession {
  readonly session: string;
  readonly wasOpen: boolean;
  readonly hasEnded: boolean;
}

export interface Diagnostic {
  readonly code: string;
  readonly severity: 'error' | 'warning';
  readonly message: string;
  readonly remedy: string;
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

export interface ForkRun {
  /** The spec, as YAML or JSON. A start has either `spec` or `plan`. */
  readonly spec?: string | undefined;
  /** A compiled plan, as `voidbox inspect --json` prints it. It has its parameters already. */
  readonly plan?: Readonly<Record<string, unknown>> | undefined;
  /** The absolute path of the folder where relative paths of the spec start. The run may mount it and the folders below it. Absent: the folder of the uploads. A token may not name it. */
  readonly baseDir?: string | undefined;
  /** SHA-256 of uploaded tars, by the paths of the folders as the spec or the plan names them. Each tar has the content of its folder. */
  readonly uploads?: Readonly<Record<string, string>> | undefined;
  /** SHA-256 of uploaded git bundles, by the paths of the repositories that workspaces name. Each has the references `refs/voidbox/commit` and `refs/voidbox/base`. */
  readonly bundles?: Readonly<Record<string, string>> | undefined;
  /** Parameters of the spec. */
  readonly params?: Readonly<Record<string, string>> | undefined;
  /** The input of the first stages. */
  readonly input?: string | undefined;
  /** At most 1000 bytes. Absent: a generated id. */
  readonly runId?: string | undefined;
  /** The only variables that the run may read, and settings such as VOIDBOX_LLM_MODEL. */
  readonly variables?: Readonly<Record<string, string>> | undefined;
  /** Absolute paths of further folders that this run may mount. */
  readonly allowMounts?: readonly string[] | undefined;
  /** Repositories that this run may fetch with your git login, as HOST/PATH. */
  readonly allowGit?: readonly string[] | undefined;
  /** The stage from which everything runs again. A stage before it that differs is refused. */
  readonly from?: string | undefined;
  readonly timeoutMs?: number | undefined;
  readonly deadlineMs?: number | undefined;
}

export interface Health {
  readonly status: 'ok';
}

export interface Problem {
  readonly status: number;
  readonly title: string;
  readonly code: string;
  readonly detail: string;
  readonly remedy: string | null;
  /** Repaired in the request, in the machine or its server, or in the run. */
  readonly fault: 'usage' | 'environment' | 'failed';
  readonly diagnostics?: readonly Diagnostic[] | undefined;
}

export interface Questions {
  readonly questions: readonly {
    readonly runId: string;
    readonly name: string;
    /** The stage that an answer names, such as `review[3].ok`. */
    readonly stage: string;
    readonly message: string;
    readonly by: readonly string[];
    /** False: the token that started the run may not answer. */
    readonly selfApproval: boolean;
    readonly fields: readonly {
      readonly name: string;
      readonly type: string;
      readonly required: boolean;
      readonly description: string;
      readonly choices: readonly string[];
    }[];
    readonly deadlineAt: string | null;
    readonly onTimeout: string;
    readonly item?: string | undefined;
  }[];
  /** There are more than 1000. */
  readonly hasMore: boolean;
}

export interface Readiness {
  readonly isReady: boolean;
  readonly missing: readonly {
    readonly part: 'server' | 'worker' | 'disk' | 'store';
    readonly problem: string;
  }[];
}

export interface RerunPreview {
  readonly origin: {
    readonly runId: string;
    readonly kind: 'retry' | 'fork';
    readonly from: string | null;
  };
  /** Stages whose results are taken over. */
  readonly given: readonly string[];
  /** Stages that run again, and why. */
  readonly again: readonly {
    readonly stage: string;
    readonly because: string;
    readonly of: string | null;
    readonly keys: readonly string[];
    readonly state: string | null;
    readonly unsaved: string | null;
  }[];
  /** VMs that start from a checkpoint of a step. */
  readonly checkpoints: readonly {
    readonly scope: string;
    readonly after: string;
  }[];
  /** Agents that continue; with further fields, as `voidbox retry --json` prints them. */
  readonly continued?: readonly {
    readonly stage: string;
    readonly savedAt: string;
  }[];
  /** The limits that a retry whose agents continue changes. */
  readonly limits?: {
    readonly stages: Readonly<Record<string, unknown>>;
  };
  /** For a retry: another token started the earlier run. */
  readonly isOfOtherToken?: boolean | undefined;
  /** The plan, with `preview=plan`. */
  readonly plan?: {
    readonly name: string;
  };
}

/** Has further fields: those of `voidbox status --json`. */
export interface Result {
  readonly runId: string;
  readonly name: string;
  readonly kind: string;
  readonly state: string;
  readonly host: string;
  readonly mocked: readonly string[];
  readonly mockAgents: readonly string[];
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  readonly stages: readonly Stage[];
  readonly failedStage: string | null;
  readonly failure: {
    readonly code: string;
    readonly message: string;
    readonly stderrTail: string;
  } | null;
  readonly tolerated: readonly string[];
  readonly output: {
    readonly sha256: string;
    readonly sizeBytes: number;
    readonly mediaType: string;
  } | null;
  readonly damage: string | null;
  /** Null if the output has more than 1 MiB or is not text. */
  readonly outputText: string | null;
  readonly [field: string]: unknown;
}

export interface RetainedVm {
  readonly runId: string;
  readonly stage: string;
  readonly vmKey: string;
  readonly memoryMib: number | null;
  readonly retainedAtMs: number;
  readonly untilMs: number;
}

export interface RetainedVms {
  readonly vms: readonly RetainedVm[];
}

export interface RetryRun {
  /** The stage from which everything runs again. */
  readonly from?: string | undefined;
  /** Parameters that differ from those of the earlier run. */
  readonly params?: Readonly<Record<string, string>> | undefined;
  /** Absent: the input of the earlier run. */
  readonly input?: string | undefined;
  readonly runId?: string | undefined;
  /** The only variables that the run may read, and settings such as VOIDBOX_LLM_MODEL. */
  readonly variables?: Readonly<Record<string, string>> | undefined;
  /** Agents continue their saved sessions, with these limits. */
  readonly continue?: {
    readonly fresh?: readonly string[] | undefined;
    readonly timeoutMs?: number | undefined;
    readonly maxCostUsd?: number | undefined;
    readonly maxTokens?: number | undefined;
    readonly maxTurns?: number | undefined;
  };
  readonly timeoutMs?: number | undefined;
  readonly deadlineMs?: number | undefined;
}

/** Has further fields: those of `voidbox status --json`. */
export interface Run {
  readonly runId: string;
  readonly name: string;
  readonly kind: string;
  readonly state: string;
  readonly host: string;
  readonly mocked: readonly string[];
  readonly mockAgents: readonly string[];
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  readonly stages: readonly Stage[];
  readonly failedStage: string | null;
  readonly failure: {
    readonly code: string;
    readonly message: string;
    readonly stderrTail: string;
  } | null;
  readonly tolerated: readonly string[];
  readonly output: {
    readonly sha256: string;
    readonly sizeBytes: number;
    readonly mediaType: string;
  } | null;
  readonly damage: string | null;
  readonly [field: string]: unknown;
}

export interface RunActions {
  readonly action: 'cancel' | 'retry';
  /** The whole ids of at most 1000 runs; either these or `filter`. */
  readonly runs?: readonly string[] | undefined;
  /** The first 1000 runs of a list, with at least one condition. */
  readonly filter?: {
    readonly state?: 'running' | 'succeeded' | 'failed' | 'cancelled' | 'terminated' | 'damaged' | undefined;
    readonly name?: string | undefined;
    readonly since?: string | undefined;
  };
  /** Changes nothing, and lists what would be changed. */
  readonly dryRun?: boolean | undefined;
  /** The only variables that the run may read, and settings such as VOIDBOX_LLM_MODEL. */
  readonly variables?: Readonly<Record<string, string>> | undefined;
}

export interface RunList {
  readonly runs: readonly Run[];
  /** The `cursor` of the next page; null if no run follows. */
  readonly next: string | null;
}

/** Has further fields: those of `voidbox session status --json`. */
export interface Session {
  readonly session: string;
  readonly skill: string;
  readonly version: string;
  readonly codeHash: string;
  readonly status: string;
  readonly turn: number;
  readonly startedAt: string | null;
  readonly current: StepResult | null;
  readonly open: readonly {
    readonly step: string;
    readonly turn: number;
    readonly phase: string;
  }[];
  readonly visits: Readonly<Record<string, number>>;
  readonly blocked: string | null;
  readonly [field: string]: unknown;
}

export interface SessionResult {
  readonly session: string;
  readonly result: StepResult | null;
}

export interface Sessions {
  readonly sessions: readonly {
    readonly session: string;
    readonly skill: string | null;
    readonly state: string;
    readonly startedAt: string | null;
    readonly endedAt: string | null;
    readonly waiting?: readonly {
      readonly step: string;
      readonly turn: number;
      readonly assignee: string | null;
      readonly dueAt: string | null;
    }[];
  }[];
  readonly unasked?: readonly {
    readonly session: string;
    readonly reason: string;
  }[];
  readonly hasMore: boolean;
}

/** Has further fields: those of `voidbox status --json`. */
export interface Stage {
  readonly id: string;
  readonly state: string;
  readonly attempt: number;
  readonly exitCode: number | null;
  readonly durationMs: number | null;
  readonly failure: {
    readonly code: string;
    readonly message: string;
    readonly stderrTail: string;
  } | null;
  readonly [field: string]: unknown;
}

export interface StartRun {
  /** The spec, as YAML or JSON. A start has either `spec` or `plan`. */
  readonly spec?: string | undefined;
  /** A compiled plan, as `voidbox inspect --json` prints it. It has its parameters already. */
  readonly plan?: Readonly<Record<string, unknown>> | undefined;
  /** The absolute path of the folder where relative paths of the spec start. The run may mount it and the folders below it. Absent: the folder of the uploads. A token may not name it. */
  readonly baseDir?: string | undefined;
  /** SHA-256 of uploaded tars, by the paths of the folders as the spec or the plan names them. Each tar has the content of its folder. */
  readonly uploads?: Readonly<Record<string, string>> | undefined;
  /** SHA-256 of uploaded git bundles, by the paths of the repositories that workspaces name. Each has the references `refs/voidbox/commit` and `refs/voidbox/base`. */
  readonly bundles?: Readonly<Record<string, string>> | undefined;
  /** Parameters of the spec. */
  readonly params?: Readonly<Record<string, string>> | undefined;
  /** The input of the first stages. */
  readonly input?: string | undefined;
  /** At most 1000 bytes. Absent: a generated id. */
  readonly runId?: string | undefined;
  /** Stages that return their `mock`: `all`, or their names. */
  readonly mock?: 'all' | readonly string[] | undefined;
  /** The mock agent plays every agent, without a model. */
  readonly mockAgents?: boolean | undefined;
  /** The only variables that the run may read, and settings such as VOIDBOX_LLM_MODEL. */
  readonly variables?: Readonly<Record<string, string>> | undefined;
  /** Absolute paths of further folders that this run may mount. */
  readonly allowMounts?: readonly string[] | undefined;
  /** Repositories that this run may fetch with your git login, as HOST/PATH. */
  readonly allowGit?: readonly string[] | undefined;
}

export interface StartSession {
  /** The name of a step machine that the stack has loaded. */
  readonly skill: string;
  /** The id of the session. Use 1 to 128 of A-Z, a-z, 0-9, ".", "_", "-", not starting with ".". */
  readonly session: string;
  /** The params of the step machine. */
  readonly params?: unknown;
  /** The only version that the session accepts. */
  readonly version?: string | undefined;
  /** The code that the session accepts: at least 8 digits of its hash. */
  readonly codeHash?: string | undefined;
  /** Starts this sub-skill instead. */
  readonly subskill?: string | undefined;
  /** The only variables that the run may read, and settings such as VOIDBOX_LLM_MODEL. */
  readonly variables?: Readonly<Record<string, string>> | undefined;
}

export interface StartedRerun {
  readonly runId: string;
  readonly diagnostics: readonly Diagnostic[];
  readonly origin: {
    readonly runId: string;
    readonly kind: 'retry' | 'fork';
    readonly from: string | null;
  };
  /** Stages whose results are taken over. */
  readonly given: readonly string[];
  /** Stages that run again, and why. */
  readonly again: readonly {
    readonly stage: string;
    readonly because: string;
    readonly of: string | null;
    readonly keys: readonly string[];
    readonly state: string | null;
    readonly unsaved: string | null;
  }[];
  /** VMs that start from a checkpoint of a step. */
  readonly checkpoints: readonly {
    readonly scope: string;
    readonly after: string;
  }[];
}

export interface StartedRun {
  readonly runId: string;
  readonly diagnostics: readonly Diagnostic[];
  /** The run after `wait`; null without it. */
  readonly run: Result | null;
}

/** A completed step; has further fields. */
export interface StepRecord {
  readonly step: string;
  readonly turn: number;
  readonly [field: string]: unknown;
}

/** Has further fields, by its kind. */
export interface StepResult {
  readonly kind: 'prompt' | 'done' | 'waiting' | 'redirect' | 'error';
  readonly [field: string]: unknown;
}

export interface Version {
  readonly version: string;
  readonly api: 'v1';
}

export interface ListRunsQuery {
  readonly state?: 'running' | 'succeeded' | 'failed' | 'cancelled' | 'terminated' | 'damaged' | undefined;
  /** The name of the spec. */
  readonly name?: string | undefined;
  /** Only runs that started at this time or later, as ISO 8601. */
  readonly since?: string | undefined;
  /** The runs of a page; at most 200, by default 50. */
  readonly limit?: string | undefined;
  /** `next` of the previous page. */
  readonly cursor?: string | undefined;
}

export interface ListSessionsQuery {
  readonly state?: 'open' | 'done' | 'failed' | 'cancelled' | undefined;
  /** `true`: only open sessions that wait for a person, with the steps. */
  readonly waiting?: string | undefined;
  /** The listed sessions; at most 1000, by default 50. */
  readonly limit?: string | undefined;
}

export interface ReadLogsQuery {
  /** `only`: without lines about the states of stages and VMs. */
  readonly output?: 'true' | 'only' | undefined;
  /** `true`: the time (UTC) before each line. */
  readonly timestamps?: string | undefined;
  /** The shown output of tools of agents; by default `short`: 2 KiB of each call. */
  readonly tools?: 'none' | 'short' | 'full' | undefined;
  /** Only this stage, with all its items; or one item, such as `resize[3]` or `resize[3].cut`. */
  readonly stage?: string | undefined;
  /** Only output of this stream. */
  readonly stream?: 'stdout' | 'stderr' | 'both' | undefined;
  /** As `voidbox logs --since`: an age (90s, 10m, 2h, 1d), a time (2026-11-23T08:00:00Z), or the `seq` of an event. */
  readonly since?: string | undefined;
  /** Only lines that contain this text, which is no pattern. */
  readonly grep?: string | undefined;
  /** Begins with this many last ones; at most 10000. */
  readonly tail?: string | undefined;
}
