/** What sessions say and carry, made to fit into one message. */
import type { SessionAnswer, SessionCarried } from '../activities/contract-session.ts';
import { jsonBytes, MOST_REPLY_BYTES } from '../domain/step-machine/size-limits.ts';

/** One message, and room for what is around it. */
const MOST_CARRIED_BYTES = (2048 - 64) * 1024;

/** Without what was completed when that makes it too long: the history has it. */
export function fittingAnswer(answer: SessionAnswer): SessionAnswer {
  if (answer.kind === 'called' || jsonBytes(answer) <= MOST_REPLY_BYTES) return answer;
  const { result } = answer;
  if (result.kind === 'error') return answer;
  const { completed: _completed, autoAdvanced: _autoAdvanced, ...rest } = result;
  return { kind: 'answer', result: rest };
}

/** With the newest of its answers that there is room for. */
export function fittingCarried(carried: SessionCarried): SessionCarried {
  let left = MOST_CARRIED_BYTES - jsonBytes({ ...carried, answers: [] });
  const dropped = carried.answers.findLastIndex((taken) => (left -= jsonBytes(taken)) < 0);
  return dropped < 0 ? carried : { ...carried, answers: carried.answers.slice(dropped + 1) };
}
