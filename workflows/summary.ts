/** The line that the Temporal UI shows with an activity, a timer or a child workflow. */
import type { NewRunEvent } from '../domain/run/event.ts';
import { sanitizeLine } from '../domain/security/sanitize.ts';
import type { SessionEventBody } from '../domain/step-machine/event.ts';
import { addressIn } from '../domain/step-machine/reply.ts';
import type { SessionState } from '../domain/step-machine/state.ts';
import { countUtf8Bytes } from '../domain/units/utf8.ts';

/**
 * The server refuses a command with a summary of more than 400 bytes, and the workflow's task would be retried for
 * ever.
 */
const MOST_SUMMARY_BYTES = 200;

/**
 * Puts a text on one line, short enough for the server.
 * @param end  a short text, which is kept if the text is cut
 */
export function summaryOf(text: string, end = ''): string {
  const line = sanitizeLine(text);
  const mostBytes = MOST_SUMMARY_BYTES - countUtf8Bytes(end);
  if (countUtf8Bytes(line) <= mostBytes) return `${line}${end}`;
  let bytes = 0;
  const kept: string[] = [];
  for (const character of line) {
    bytes += countUtf8Bytes(character);
    if (bytes > mostBytes - 3) break;
    kept.push(character);
  }
  return `${kept.join('')}…${end}`;
}

/** The summary of a call that writes events of the workflow: their number and their kinds. */
export function eventsSummary(events: readonly NewRunEvent[]): string {
  const kinds = [...new Set(events.map(({ body }) => body.type))].join(', ');
  return summaryOf(`${events.length} ${events.length === 1 ? 'event' : 'events'}: ${kinds}`);
}

/** The summary of a turn: the step, and the event for it. */
export function turnSummary(state: SessionState, event: SessionEventBody): string {
  if (event.type === 'advance') return summaryOf(`${event.step}: answer`);
  if (!('cursor' in event)) return event.type;
  const cursor = state.cursors.find(({ id }) => id === event.cursor);
  return summaryOf(`${cursor === undefined ? 'a step that has ended' : addressIn(state, cursor)}: ${event.type}`);
}
