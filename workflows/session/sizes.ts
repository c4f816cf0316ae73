/** Makes the replies and the carried state of a session fit into one message. */
import type { SessionAnswer, SessionCarried } from '../../activities/contract-session.ts';
import { countJsonBytes, MOST_REPLY_BYTES } from '../../domain/step-machine/size-limits.ts';

/** The size of one message, without room for its other parts. */
const MOST_CARRIED_BYTES = (2048 - 64) * 1024;

/**
 * A server terminates a workflow, without asking, at 51,200 events or 50 MiB of history, unless it has other limits. A
 * session continues as new long before, but not while an action or a sub-skill is under way. At these limits it accepts
 * no more answers, and the work under way fits into the rest.
 */
const MOST_HISTORY_EVENTS = 40_000;
const MOST_HISTORY_BYTES = 32 * 1024 * 1024;

/** Whether the history of the present run is full. */
export function isHistoryFull({
  historyLength,
  historySize,
}: {
  readonly historyLength: number;
  readonly historySize: number;
}): boolean {
  return historyLength >= MOST_HISTORY_EVENTS || historySize >= MOST_HISTORY_BYTES;
}

/** Leaves out the completed steps if they make the answer too long: the history contains them. */
export function fitAnswer(answer: SessionAnswer): SessionAnswer {
  if (answer.kind !== 'answer' || countJsonBytes(answer) <= MOST_REPLY_BYTES) return answer;
  const { result } = answer;
  if (result.kind === 'error') return answer;
  const { completed: _completed, autoAdvanced: _autoAdvanced, ...rest } = result;
  return { kind: 'answer', result: rest };
}

/** Keeps the newest of the answers that fit. */
export function fitCarried(carried: SessionCarried): SessionCarried {
  let left = MOST_CARRIED_BYTES - countJsonBytes({ ...carried, answers: [] });
  const dropped = carried.answers.findLastIndex((taken) => (left -= countJsonBytes(taken)) < 0);
  return dropped < 0 ? carried : { ...carried, answers: carried.answers.slice(dropped + 1) };
}
