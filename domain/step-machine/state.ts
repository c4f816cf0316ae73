/** The stored state of a session: JSON-safe if the results of callbacks are. */
import type { StepResult } from './definition.ts';
import type { AttemptFailure, RecordLog } from './records.ts';
import type { ValidationErrorResult } from './result.ts';

export interface ErrorFacts {
  readonly name: string;
  readonly message: string;
}

export type SessionStatus =
  | { readonly kind: 'new' }
  | { readonly kind: 'open' }
  | { readonly kind: 'done'; readonly finalOutput: unknown }
  | { readonly kind: 'redirected'; readonly redirect: string }
  | { readonly kind: 'failed'; readonly step: string; readonly error: ErrorFacts }
  | { readonly kind: 'cancelled'; readonly reason: string };

export interface SessionOptions {
  /** False: a redirect ends the session, and the reply contains the redirect. */
  readonly followRedirects: boolean;
  /** Whether prompts name their turn. */
  readonly showTurns: boolean;
}

export interface SessionState {
  readonly format: 1;
  readonly session: string;
  readonly options: SessionOptions;
  readonly skill: string;
  readonly version: string;
  readonly codeHash: string | null;
  readonly status: SessionStatus;
  readonly startedAtMs: number;
  /** The time of the last event. */
  readonly nowMs: number;
  /** The last turn. Each visit has its own turn, and a visit whose action failed gets another one. */
  readonly turn: number;
  readonly nextFrame: number;
  readonly frames: readonly FrameState[];
  /** Oldest first. */
  readonly cursors: readonly Cursor[];
  readonly groups: readonly ParallelGroup[];
  readonly requests: readonly RequestState[];
  readonly records: RecordLog;
}

/** One running skill: 0 is the session's own, the others are its sub-skills. */
export interface FrameState {
  readonly id: number;
  /** The names of sub-skills from the session's skill to this one. */
  readonly skill: readonly string[];
  /** The prefix of its steps: empty or `a/b/`. */
  readonly prefix: string;
  readonly params: unknown;
  readonly stores: Readonly<Record<string, unknown>>;
  /** Completed visits by step. */
  readonly visits: Readonly<Record<string, number>>;
  /** The last result by step. */
  readonly last: Readonly<Record<string, unknown>>;
  readonly startedAtMs: number;
  /** The number of records when it began, including flushed ones; its own records follow. Absent: 0. */
  readonly firstRecord?: number;
  /** A client has received its preamble. */
  readonly introduced: boolean;
  /** The cursor that waits for this skill's final output; null: no cursor waits. */
  readonly returnTo: number | null;
}

export type Phase =
  /** A replay placed it; it asks for no command yet. */
  | { readonly kind: 'parked' }
  | { readonly kind: 'rendering' }
  /** It waits for an answer. */
  | { readonly kind: 'asking' }
  | { readonly kind: 'validating'; readonly raw: unknown }
  | {
      readonly kind: 'acting';
      readonly response: unknown;
      readonly attempt: number;
      readonly failures: readonly AttemptFailure[];
    }
  | {
      readonly kind: 'backoff';
      readonly response: unknown;
      readonly attempt: number;
      readonly failures: readonly AttemptFailure[];
      readonly dueMs: number;
    }
  | {
      readonly kind: 'saving';
      readonly response: unknown;
      readonly actionResult?: unknown;
      readonly failures: readonly AttemptFailure[];
    }
  | { readonly kind: 'choosing'; readonly response: unknown; readonly actionResult?: unknown; readonly result: unknown }
  | { readonly kind: 'measuring' }
  | { readonly kind: 'waiting'; readonly dueMs: number }
  | {
      readonly kind: 'starting-child';
      readonly subskill: string;
      readonly response: unknown;
      readonly returns: boolean;
    }
  | { readonly kind: 'calling'; readonly frame: number }
  | { readonly kind: 'rendering-topic'; readonly topic: string }
  | { readonly kind: 'finishing'; readonly finalOutput: unknown; readonly response: unknown }
  /** A callback threw. An answer for this step tries again from `at`. */
  | { readonly kind: 'stuck'; readonly at: Phase; readonly error: ErrorFacts };

/** A current step. Several steps are current only within parallel steps. */
export interface Cursor {
  readonly id: number;
  readonly frame: number;
  readonly step: string;
  readonly turn: number;
  readonly group: number | null;
  readonly phase: Phase;
  readonly enteredAtMs: number;
  /** Steps that were passed without a prompt since the last prompt. */
  readonly depth: number;
  /** Answers of this visit that failed the schema. */
  readonly invalid: number;
  /** The request that moves it. */
  readonly request: string | null;
  /** Whether that request answered it, and did not only pass it. */
  readonly submitted: boolean;
  readonly prompt: RenderedPrompt | null;
  /** A person should answer; null: any client. */
  readonly human: { readonly assignee?: string } | null;
  /** The deadline; null: no deadline. */
  readonly deadlineMs: number | null;
  /** Set while history is replayed: observers are not called, and no action runs. */
  readonly replay: { readonly actionResult?: unknown } | null;
}

export interface RenderedPrompt {
  readonly preamble?: string;
  readonly prompt: string;
  readonly schema: unknown;
}

export interface ParallelGroup {
  readonly id: number;
  readonly frame: number;
  readonly join: string;
  /** Branches that have not reached `join`. */
  readonly open: number;
  readonly parent: number | null;
}

/** A client that waits for an answer. */
export interface RequestState {
  readonly id: string;
  readonly step: string;
  readonly completed?: StepResult;
  readonly autoAdvanced: readonly StepResult[];
  readonly error?: ValidationErrorResult;
}

export function frameOf(state: SessionState, id: number): FrameState {
  return state.frames.find((frame) => frame.id === id)!;
}

export function ownCount(counts: Readonly<Record<string, number>>, key: string): number {
  return Object.hasOwn(counts, key) ? counts[key]! : 0;
}
