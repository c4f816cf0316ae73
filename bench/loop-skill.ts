/** The skill that figures of step machines are taken on: a step that loops, its answer checked by zod and merged into a sub-store. */
import { z } from 'zod';
import type { SkillDefinition } from '../domain/step-machine/definition.ts';
import { skill, terminal } from '../skill-kit/exports.ts';

const NOTE = 'n'.repeat(40);

export const LOOP_STEP = 'loop';

/** Returns an answer of about 60 bytes. */
export function loopAnswer(index: number): { readonly index: number; readonly note: string } {
  return { index, note: NOTE };
}

export function loopSkill(): SkillDefinition {
  return skill({
    name: 'loop',
    description: 'Asks the same again',
    entry: LOOP_STEP,
    stores: { last: z.object({ index: z.number() }) },
  })
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
