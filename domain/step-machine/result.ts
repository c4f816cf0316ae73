/** The answers to clients. `kind` tells them apart; the keys are printed in this order. */
import type { StepResult } from './definition.ts';

export interface PromptResult {
  readonly kind: 'prompt';
  readonly step: string;
  /** With the first prompt of a skill: its `system` text, and how to read prompts. */
  readonly preamble?: string;
  readonly prompt: string;
  /** JSON Schema of the answer; null if the step has no schema, or JSON Schema cannot express it. */
  readonly schema: unknown;
  /** The step that was answered. */
  readonly completed?: StepResult;
  /** Steps passed without a prompt since then, oldest first; none of them is `completed`. */
  readonly autoAdvanced?: readonly StepResult[];
  /** The turn of this visit. An answer may name it, and is refused if the session has moved on. */
  readonly turn?: number;
  /** A person should answer. */
  readonly human?: { readonly assignee?: string; readonly dueMs?: number };
  /** Other steps that can be answered at the same time. */
  readonly open?: readonly OpenStep[];
}
export interface OpenStep {
  readonly step: string;
  readonly prompt: string;
  readonly schema: unknown;
  readonly turn: number;
}
export interface DoneResult {
  readonly kind: 'done';
  readonly done: true;
  readonly finalOutput: unknown;
  readonly completed?: StepResult;
  readonly autoAdvanced?: readonly StepResult[];
}
/**
 * - `validation`: the answer does not fit the schema, or there is no such step.
 * - `order`: another step, or another turn, is due.
 * - `limit`: too many answers failed the schema.
 * - `busy`: the step is being worked on.
 * - `action`: the action failed for good, or another callback of the author threw; the step can be answered again.
 * - `away`: the code that the session needs is not there; nothing was changed.
 * - `failed`, `cancelled`: the session is over.
 */
export type ErrorKind = 'validation' | 'order' | 'limit' | 'busy' | 'action' | 'away' | 'failed' | 'cancelled';
export interface ValidationErrorResult {
  readonly kind: 'error';
  readonly error: ErrorKind;
  readonly step: string;
  readonly message: string;
  /** Whether the same step can be answered again. */
  readonly retry: boolean;
}
/** The reply instead of following a redirect, if the session does not follow redirects. */
export interface RedirectResult {
  readonly kind: 'redirect';
  readonly redirect: string;
  readonly completed?: StepResult;
  readonly autoAdvanced?: readonly StepResult[];
  readonly store: unknown;
}
/** No step can be answered before this time. */
export interface WaitingResult {
  readonly kind: 'waiting';
  readonly step: string;
  /** Milliseconds since 1970. */
  readonly dueMs: number;
  readonly completed?: StepResult;
  readonly autoAdvanced?: readonly StepResult[];
}
export type SessionResult = PromptResult | DoneResult | ValidationErrorResult | RedirectResult | WaitingResult;
