/** The views of a session: the answer to the query, and its page in the Temporal UI. */
import type { ChildSession, SessionView } from '../../activities/contract-session.ts';
import { recordsOf, type StepRecord } from '../../domain/step-machine/records.ts';
import { addressIn, currentResult } from '../../domain/step-machine/reply.ts';
import type { Cursor, SessionState } from '../../domain/step-machine/state.ts';
import { isDateMs } from '../../domain/units/time.ts';
import { code, commandLines, markdownTable } from '../markdown.ts';

/** Characters of values in the UI. */
const SHOWN_CHARACTERS = 400;

/** A running session. */
export interface ViewSource {
  readonly state: SessionState;
  /** The newest record that the state no longer contains. */
  readonly lastFlushed: StepRecord | null;
  readonly childSessions: readonly ChildSession[];
  /** Why it cannot continue at the moment; null: it can. */
  readonly blocked: string | null;
}

/** @param refused  why it could not be opened */
export function createOpeningView(session: string, refused: { readonly message: string } | null): SessionView {
  return {
    session,
    skill: '',
    version: '',
    codeHash: '',
    status: refused === null ? 'opening' : 'failed',
    turn: 0,
    startedAtMs: 0,
    current:
      refused === null ? null : { kind: 'error', error: 'failed', step: '', message: refused.message, retry: false },
    open: [],
    visits: {},
    last: null,
    childSessions: [],
    blocked: null,
  };
}

export function viewOf(session: ViewSource): SessionView {
  const { state, childSessions, blocked } = session;
  return {
    session: state.session,
    skill: state.skill,
    version: state.version,
    codeHash: state.codeHash ?? '',
    status: state.status.kind,
    turn: state.turn,
    startedAtMs: state.startedAtMs,
    current: currentResult(state),
    open: state.cursors.map((cursor) => ({
      step: addressIn(state, cursor),
      turn: cursor.turn,
      phase: cursor.phase.kind,
      ...personAsked(cursor),
    })),
    visits: visitsIn(state),
    last: lastOf(session),
    childSessions,
    blocked,
  };
}

function personAsked({ phase, human, deadlineMs }: Cursor): Pick<SessionView['open'][number], 'human'> {
  if (phase.kind !== 'asking' || human === null) return {};
  return { human: { ...human, ...(deadlineMs === null ? {} : { dueMs: deadlineMs }) } };
}

function visitsIn(state: SessionState): Record<string, number> {
  return Object.fromEntries(
    state.frames.flatMap(({ prefix, visits }) => Object.entries(visits).map(([step, count]) => [prefix + step, count])),
  );
}

export function lastOf({
  state: { records },
  lastFlushed,
}: Pick<ViewSource, 'state' | 'lastFlushed'>): StepRecord | null {
  const [last = lastFlushed] = recordsOf(records, records.length - 1);
  return last;
}

/** Returns Markdown. */
export function sessionPage(session: ViewSource): string {
  const { state, childSessions, blocked } = session;
  const last = lastOf(session);
  const rows = Object.entries(visitsIn(state));
  const current = state.cursors.map((cursor) => `**${addressIn(state, cursor)}** (${describeCursor(cursor)})`);
  return [
    `**${state.skill}** ${state.version}, code ${(state.codeHash ?? '').slice(0, 12)}: ${state.status.kind}${reason(state)}`,
    ...(current.length === 0 ? [] : ['', `Current: ${current.join(', ')}`]),
    ...(state.status.kind === 'open' ? commandLines('Prompt and status', 'voidbox session status', state.session) : []),
    ...(blocked === null ? [] : ['', `Blocked: ${code(blocked)}`]),
    ...childSessions.map(({ session, prefix }) => `\nSub-skill \`${prefix}\` runs as session \`${session}\``),
    ...(last === null ? [] : ['', `Last answer, to ${last.step}: ${formatValue(last.response)}`]),
    ...(rows.length === 0 ? [] : ['', ...markdownTable(['step', 'visits'], rows)]),
  ].join('\n');
}

function reason({ status }: SessionState): string {
  if (status.kind === 'failed') return `, at ${status.step}: ${formatValue(status.error.message)}`;
  return status.kind === 'cancelled' ? `, ${status.reason}` : '';
}

function describeCursor({ phase, turn, human, deadlineMs }: Cursor): string {
  const said: string[] = [];
  if (phase.kind === 'asking' && human !== null) {
    const until = deadlineMs === null ? '' : ` until ${dateOf(deadlineMs)}`;
    said.push(`waits for ${human.assignee ?? 'a person'}${until}`);
  } else said.push(phase.kind);
  said.push(`turn ${turn}`);
  if (phase.kind === 'waiting' || phase.kind === 'backoff') said.push(`until ${dateOf(phase.dueMs)}`);
  if (phase.kind === 'acting' && phase.attempt > 1) said.push(`attempt ${phase.attempt}`);
  if (phase.kind === 'stuck') said.push(formatValue(phase.error.message));
  if (phase.kind === 'asking' && human === null && deadlineMs !== null) said.push(`until ${dateOf(deadlineMs)}`);
  return said.join(', ');
}

function dateOf(ms: number): string {
  return isDateMs(ms) ? new Date(ms).toISOString() : 'the end of time';
}

function formatValue(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return code(text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS)}…`);
}
