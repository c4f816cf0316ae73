/** Sessions that a test drives in its own process. */
import type { SkillDefinition } from '../../../domain/step-machine/definition.ts';
import { recordsOf } from '../../../domain/step-machine/records.ts';
import type { SessionResult } from '../../../domain/step-machine/result.ts';
import type { SessionState } from '../../../domain/step-machine/state.ts';
import {
  advanceSession,
  createSession,
  type Session,
  type SessionConfig,
  startSession,
} from '../../../skill-kit/drive/drive.ts';

const warnings = new WeakMap<Session, string[]>();

export function open(skill: SkillDefinition, config: SessionConfig = {}): Session {
  const told: string[] = [];
  const session = createSession(skill, { session: 's1', warn: (message) => void told.push(message), ...config });
  warnings.set(session, told);
  return session;
}

/** The warnings of a session that `open` or `started` made, oldest first. */
export function warningsOf(session: Session): readonly string[] {
  return warnings.get(session)!;
}

export async function started(skill: SkillDefinition, config: SessionConfig = {}): Promise<Session> {
  const session = open(skill, config);
  await startSession(session);
  return session;
}

export function answer(session: Session, step: string, output: unknown = {}): Promise<SessionResult> {
  return advanceSession(session, { step, output });
}

/** The steps that were completed, oldest first. */
export function pathOf({ state }: Session): string[] {
  return [...recordsOf(state.records)].map(({ step }) => step);
}

/** Returns the state as a store would return it. */
export function onJson(state: SessionState): SessionState {
  return JSON.parse(JSON.stringify(state)) as SessionState;
}
