/** Shortens the texts in the state of a run, because the size of the state is limited. */
import type { StageFailure } from '../run/stage-result.ts';

const TEXT_LIMIT = 2_048;

export function clip(text: string): string {
  return text.length <= TEXT_LIMIT ? text : `${text.slice(0, TEXT_LIMIT - 1)}…`;
}

export function clipFailure(failure: StageFailure): StageFailure {
  return { code: failure.code, message: clip(failure.message), stderrTail: failure.stderrTail.slice(-TEXT_LIMIT) };
}
