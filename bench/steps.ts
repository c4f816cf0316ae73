/**
 * Measures what one advance of a step machine costs in this process, by the number of steps in its session. The mean
 * covers a whole session, so that it shows costs that grow with the session.
 */
import { recordsOf, type StepRecord } from '../domain/step-machine/records.ts';
import type { SessionState } from '../domain/step-machine/state.ts';
import {
  advanceSession,
  createSession,
  type Session,
  type SessionConfig,
  startSession,
} from '../skill-kit/drive/drive.ts';
import { LOOP_STEP, loopAnswer, loopSkill } from './loop-skill.ts';
import type { Arm } from './measure.ts';

export type AdvanceMeasure = 'wallMs' | 'cpuMs';

export const DEPTHS: readonly number[] = [10, 100, 1_000, 10_000];

export function inProcessArm(steps: number): Arm<AdvanceMeasure> {
  return {
    name: `${count(steps)} steps`,
    async round() {
      const session = createSession(loopSkill());
      await startSession(session);
      const cpuBefore = process.cpuUsage();
      const began = performance.now();
      await advanceTo(session, steps);
      const wallMs = performance.now() - began;
      const cpu = process.cpuUsage(cpuBefore);
      return { wallMs: wallMs / steps, cpuMs: (cpu.user + cpu.system) / 1_000 / steps };
    },
  };
}

/** A session in this process after so many answers. */
export async function sessionAt(
  steps: number,
  config: SessionConfig,
): Promise<{ readonly state: SessionState; readonly records: readonly StepRecord[] }> {
  const session = createSession(loopSkill(), config);
  await startSession(session);
  await advanceTo(session, steps);
  return { state: session.state, records: [...recordsOf(session.state.records)] };
}

async function advanceTo(session: Session, steps: number): Promise<void> {
  for (let index = 0; index < steps; index++) {
    const result = await advanceSession(session, { step: LOOP_STEP, output: loopAnswer(index) });
    if (result.kind !== 'prompt') throw new Error(`advance ${index} gave ${JSON.stringify(result).slice(0, 200)}`);
  }
}

export function count(steps: number): string {
  return steps.toLocaleString('en-US');
}
