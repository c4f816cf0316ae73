import { expect, it } from 'vitest';
import { act, checkSkill, module, skill, step, terminal, z } from '../index.ts';

const said = (...given: Parameters<typeof checkSkill>): string[] =>
  checkSkill(...given).map(({ rule, severity, step: at, message }) => `${severity} ${rule} ${at}: ${message}`);
const end = step({ prompt: 'Say goodbye.', next: terminal });

it('a sound skill has nothing to say, with the folder or without', () => {
  const sound = skill({ name: 's', entry: 'a' })
    .step('a', { prompt: 'Plan the task.', next: 'end' })
    .step('end', end)
    .build();
  expect(said(sound)).toEqual([]);
  expect(said(sound, '/nowhere')).toEqual([]);
});

it('each diagnostic has rule, severity, message, step and remedy', () => {
  const looping = skill({ name: 's', entry: 'a' }).step('a', { prompt: 'a', next: 'self' }).build();
  expect(checkSkill(looping)).toEqual([
    {
      rule: 'cycle-guard',
      severity: 'warning',
      message: 'Step "a" leads to itself without maxVisits; the implicit limit of 10 visits applies.',
      step: 'a',
      remedy: expect.stringContaining('maxVisits') as string,
    },
  ]);
});

it('texts in arrays and primitives are read, functions are not', () => {
  const naming = skill({ name: 's', entry: 'a' })
    .step('a', { prompt: ['Look.', act.plan({ summary: 'Use apply_patch', steps: ['look'] })], next: 'b' })
    .step('b', { prompt: () => 'Use TodoWrite.', next: terminal })
    .build();
  expect(said(naming)).toEqual(['error no-host-tool-names a: Step "a" names the tool "apply_patch" in its prompt.']);
});

it('options are compared with the schema, in every library', () => {
  const ask = act.askUser({
    type: 'structured',
    question: 'Which?',
    options: [
      { value: 'x', label: 'X' },
      { value: 'y', label: 'Y' },
    ],
  });
  const mismatched = skill({ name: 's', entry: 'a' })
    .step('a', { prompt: ask, response: z.object({ pick: z.enum(['x', 'z']) }), next: terminal })
    .build();
  expect(said(mismatched)).toEqual([
    'error primitive-schema-mismatch a: Step "a": option "y" of askUser is refused by response.pick, which takes "x", "z".',
    'warning primitive-schema-mismatch a: Step "a": response.pick takes "z", which no option of askUser offers.',
  ]);
});

it('sub-skills are looked at too, those of sub-skills included', () => {
  const looping = skill({ name: 'l', entry: 'a' }).step('a', { prompt: 'a', next: 'self' }).build();
  const middle = skill({ name: 'm', entry: 'a' })
    .step('a', { prompt: 'a', next: 'subskill:low' })
    .subskill('low', looping)
    .build();
  const top = skill({ name: 't', entry: 'a' })
    .step('a', { prompt: 'a', next: 'subskill:mid' })
    .subskill('mid', middle)
    .build();
  expect(said(top)).toEqual([
    'warning cycle-guard a: [subskill:mid] [subskill:low] Step "a" leads to itself without maxVisits; the implicit limit of 10 visits applies.',
  ]);
});

it("steps of modules count as the skill's", () => {
  const parts = module({ name: 'm', entry: 'x' }).step('x', { prompt: 'x', next: '__parent__' }).build();
  const registered = skill({ name: 's', entry: 'x' }).register(parts, { next: 'end' }).step('end', end).build();
  expect(said(registered)).toEqual([]);
});

it('a schema without JSON Schema is named by its library: an older zod than ours says "zod" as well', () => {
  const old = { '~standard': { version: 1, vendor: 'zod', validate: (value: unknown) => ({ value }) } } as const;
  const asking = skill({ name: 's', entry: 'a', params: old })
    .step('a', { prompt: 'a', response: old, next: terminal })
    .build();
  expect(checkSkill(asking)).toMatchObject([
    {
      rule: 'no-json-schema',
      message: 'The schema (zod) of the params has no JSON Schema.',
      remedy: expect.stringContaining('zod from 4.2') as string,
    },
    { rule: 'no-json-schema', message: 'The schema (zod) of the response of step "a" has no JSON Schema.' },
  ]);
});
