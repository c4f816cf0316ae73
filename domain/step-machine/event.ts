/**
 * Events that the engine accepts. It ignores an event if its cursor is no longer in the phase that the event answers.
 */
import type { WaitReason } from './command.ts';
import type { ErrorFacts, RenderedPrompt } from './state.ts';

export type SessionEvent = SessionEventBody & {
  /** Milliseconds since 1970, by the caller's clock. */
  readonly atMs: number;
};

export type SessionEventBody =
  | { readonly type: 'start'; readonly request: string }
  /** `turn`: the answer is refused if the session has moved on. */
  | {
      readonly type: 'advance';
      readonly request: string;
      readonly step: string;
      readonly value: unknown;
      readonly turn?: number;
    }
  | { readonly type: 'rendered'; readonly cursor: number; readonly prompt: RenderedPrompt }
  | { readonly type: 'validated'; readonly cursor: number; readonly ok: true; readonly value: unknown }
  | { readonly type: 'validated'; readonly cursor: number; readonly ok: false; readonly message: string }
  | {
      readonly type: 'action-ended';
      readonly cursor: number;
      readonly attempt: number;
      readonly ok: true;
      readonly value?: unknown;
    }
  | {
      readonly type: 'action-ended';
      readonly cursor: number;
      readonly attempt: number;
      readonly ok: false;
      readonly error: ErrorFacts;
      /** False: another attempt would end the same way. */
      readonly retryable: boolean;
      readonly timedOut: boolean;
    }
  /** `result`: the value that `save` returned as `step`, if any. */
  | {
      readonly type: 'saved';
      readonly cursor: number;
      readonly result?: { readonly value: unknown };
      readonly writes: Readonly<Record<string, unknown>>;
    }
  | { readonly type: 'chosen'; readonly cursor: number; readonly target: unknown }
  | { readonly type: 'measured'; readonly cursor: number; readonly durationMs: number }
  | { readonly type: 'timer-fired'; readonly cursor: number; readonly reason: WaitReason }
  /** Handles everything that is due by now. */
  | { readonly type: 'tick' }
  | { readonly type: 'child-ready'; readonly cursor: number; readonly params: unknown }
  | { readonly type: 'child-ended'; readonly cursor: number; readonly finalOutput: unknown }
  | { readonly type: 'topic-rendered'; readonly cursor: number; readonly content: string }
  | { readonly type: 'final-checked'; readonly cursor: number; readonly ok: true; readonly value: unknown }
  | { readonly type: 'final-checked'; readonly cursor: number; readonly ok: false; readonly message: string }
  /** The command of that cursor failed: the author's callback threw. */
  | { readonly type: 'threw'; readonly cursor: number; readonly error: ErrorFacts }
  | { readonly type: 'cancel'; readonly reason: string }
  /** Before the session is placed: one entry of a history that a client carries. */
  | { readonly type: 'replay'; readonly step: string; readonly response: unknown; readonly actionResult?: unknown }
  /** Before the session is placed: a sub-skill that the history leads into. */
  | { readonly type: 'replay-open'; readonly path: string }
  /** After a replay: the current step according to the client. */
  | { readonly type: 'place'; readonly step: string };
