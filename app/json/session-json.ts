/** The `--json` form of sessions. Stable: fields are added, never renamed or removed. */
import type { OpenSessionStep, SessionView } from '../../activities/contract-session.ts';
import type { ListedSession, SessionListState } from '../../client/sessions/list.ts';
import type { WaitingSessions } from '../../client/sessions/waiting-sessions.ts';
import { isDateMs } from '../../domain/units/time.ts';

export interface SessionJson extends Omit<SessionView, 'open'> {
  readonly startedAt: string | null;
  readonly open: readonly OpenStepJson[];
  /** Its page in the Temporal UI; null: the page is not known. */
  readonly uiUrl: string | null;
}

interface OpenStepJson extends Omit<OpenSessionStep, 'human'> {
  readonly human?: NonNullable<OpenSessionStep['human']> & { readonly dueAt: string | null };
}

export function toSessionJson(view: SessionView, uiUrl: string | null): SessionJson {
  const open = view.open.map(({ human, ...one }) =>
    human === undefined ? one : { ...one, human: { ...human, dueAt: formatIsoTime(human.dueMs ?? null) } },
  );
  const startedAt = view.startedAtMs === 0 ? null : formatIsoTime(view.startedAtMs);
  return { ...view, startedAt, open, uiUrl };
}

export interface ListedSessionJson {
  readonly session: string;
  readonly skill: string | null;
  readonly state: SessionListState;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
}

export function toListedSessionJson({
  session,
  skill,
  state,
  startedAtMs,
  endedAtMs,
}: ListedSession): ListedSessionJson {
  return { session, skill, state, startedAt: formatIsoTime(startedAtMs), endedAt: formatIsoTime(endedAtMs) };
}

export interface WaitingSessionsJson {
  readonly sessions: readonly (ListedSessionJson & {
    readonly waiting: readonly {
      readonly step: string;
      readonly turn: number;
      readonly assignee: string | null;
      readonly dueAt: string | null;
    }[];
  })[];
  readonly unasked: WaitingSessions['unasked'];
}

export function toWaitingJson({ sessions, unasked }: WaitingSessions): WaitingSessionsJson {
  const listed = sessions.map(({ waiting, ...one }) => ({
    ...toListedSessionJson(one),
    waiting: waiting.map(({ dueMs, ...step }) => ({ ...step, dueAt: formatIsoTime(dueMs) })),
  }));
  return { sessions: listed, unasked };
}

/** Null for no time. A deadline may be later than any date that can be written. */
export function formatIsoTime(ms: number | null): string | null {
  if (ms === null) return null;
  return isDateMs(ms) ? new Date(ms).toISOString() : null;
}
