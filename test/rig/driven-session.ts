/** Sessions that a test drives in its own process. */
import { afterEach } from 'vitest';
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';
import { recordsOf } from '../../domain/step-machine/records.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import type { SessionState } from '../../domain/step-machine/state.ts';
import {
  advanceSession,
  createSession,
  type Session,
  type SessionConfig,
  startSession,
} from '../../skill-kit/drive/drive.ts';

/** What sessions warned of in the present test. */
export const warnings: string[] = [];
afterEach(() => void warnings.splice(0));

export function open(skill: SkillDefinition, config: SessionConfig = {}): Session {
  return createSession(skill, { session: 's1', warn: (message) => void warnings.push(message), ...config });
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

/** As it comes back from wherever it was kept. */
export function onJson(state: SessionState): SessionState {
  return JSON.parse(JSON.stringify(state)) as SessionState;
}
