/** Tells results apart by their `kind`. */
import type {
  SessionResult,
  DoneResult,
  PromptResult,
  RedirectResult,
  ValidationErrorResult,
} from '../../domain/step-machine/result.ts';

export function isPrompt(result: SessionResult): result is PromptResult {
  return result.kind === 'prompt';
}
export function isDone(result: SessionResult): result is DoneResult {
  return result.kind === 'done';
}
export function isError(result: SessionResult): result is ValidationErrorResult {
  return result.kind === 'error';
}
export function isRedirect(result: SessionResult): result is RedirectResult {
  return result.kind === 'redirect';
}
