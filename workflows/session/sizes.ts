/** What sessions say and carry, made to fit into one message. */
import type { SessionAnswer, SessionCarried } from '../../activities/contract-session.ts';
import { jsonBytes, MOST_REPLY_BYTES } from '../../domain/step-machine/size-limits.ts';

/** One message, and room for what is around it. */
const MOST_CARRIED_BYTES = (2048 - 64) * 1024;

/**
 * A server ends, without asking, what has 51,200 events or 50 MiB of history, unless it is set otherwise. A session begins
 * its history anew long before, but not while an action or a sub-skill is under way: here it takes no more answers, and
 * what is under way fits into the rest.
 */
const MOST_HISTORY_EVENTS = 40_000;
const MOST_HISTORY_BYTES = 32 * 1024 * 1024;

/** Of the run that it is asked in. */
export function isHistoryFull({
  historyLength,
  historySize,
}: {
  readonly historyLength: number;
  readonly historySize: number;
}): boolean {
  return historyLength >= MOST_HISTORY_EVENTS || historySize >= MOST_HISTORY_BYTES;
}

/** Without what was completed when that makes it too long: the history has it. */
export function fitAnswer(answer: SessionAnswer): SessionAnswer {
  if (answer.kind !== 'answer' || jsonBytes(answer) <= MOST_REPLY_BYTES) return answer;
  const { result } = answer;
  if (result.kind === 'error') return answer;
  const { completed: _completed, autoAdvanced: _autoAdvanced, ...rest } = result;
  return { kind: 'answer', result: rest };
}

/** With the newest of its answers that there is room for. */
export function fitCarried(carried: SessionCarried): SessionCarried {
  let left = MOST_CARRIED_BYTES - jsonBytes({ ...carried, answers: [] });
  const dropped = carried.answers.findLastIndex((taken) => (left -= jsonBytes(taken)) < 0);
  return dropped < 0 ? carried : { ...carried, answers: carried.answers.slice(dropped + 1) };
}
