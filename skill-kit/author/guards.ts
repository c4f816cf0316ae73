/** Tells results apart by their `kind`. */
import type {
  CliResult,
  DoneResult,
  PromptResult,
  RedirectResult,
  ValidationErrorResult,
} from '../../domain/step-machine/result.ts';

export function isPrompt(result: CliResult): result is PromptResult {
  return result.kind === 'prompt';
}
export function isDone(result: CliResult): result is DoneResult {
  return result.kind === 'done';
}
export function isError(result: CliResult): result is ValidationErrorResult {
  return result.kind === 'error';
}
export function isRedirect(result: CliResult): result is RedirectResult {
  return result.kind === 'redirect';
}
