/**
 * What one advance of a step machine costs, by the number of steps of its session: a step that loops, with an answer of
 * about 60 bytes and a write to a sub-store. The mean over a whole session, so that anything that grows shows.
 */
import { z } from 'zod';
import { skill, terminal } from '../sdk/skill-kit/exports.ts';
import { advanceSession, createSession, startSession } from '../sdk/skill-kit/drive.ts';
import type { SkillDefinition } from '../domain/step-machine/definition.ts';
import type { Arm } from './measure.ts';

export type AdvanceMeasure = 'wallMs' | 'cpuMs';

const NOTE = 'n'.repeat(40);

export function loopSkill(): SkillDefinition {
  return skill({ name: 'loop', entry: 'loop', stores: { last: z.object({ index: z.number() }) } })
    .step('loop', {
      prompt: 'Once more.',
      response: z.object({ index: z.number(), note: z.string() }),
      maxVisits: 1_000_000,
      save: ({ response }) => ({ last: { index: response.index } }),
      next: [{ to: 'end', when: ({ response }) => response.index < 0 }, { to: 'self' }],
    })
    .step('end', { prompt: 'Say goodbye.', response: z.object({ text: z.string() }), next: terminal })
    .build();
}

export function inProcessArm(steps: number): Arm<AdvanceMeasure> {
  const definition = loopSkill();
  return {
    name: `engine in process, ${steps} steps`,
    async round() {
      const session = createSession(definition);
      await startSession(session);
      const cpuBefore = process.cpuUsage();
      const began = performance.now();
      for (let index = 0; index < steps; index++) {
        const result = await advanceSession(session, { step: 'loop', output: { index, note: NOTE } });
        if (result.kind !== 'prompt') throw new Error(`advance ${index} gave ${JSON.stringify(result).slice(0, 200)}`);
      }
      const wallMs = performance.now() - began;
      const cpu = process.cpuUsage(cpuBefore);
      return { wallMs: wallMs / steps, cpuMs: (cpu.user + cpu.system) / 1_000 / steps };
    },
  };
}
