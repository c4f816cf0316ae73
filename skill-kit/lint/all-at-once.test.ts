/** One run of lint shows every mistake, whichever part of the skill kit finds it. */
import { expect, it } from 'vitest';
import { linted, withSkill } from '../../test/rig/skills/linted.ts';
import { checkSource } from './check-source.ts';

const IMPORTS = "import { act, action, module, reference, skill, step, terminal, z } from 'voidbox/skill-kit';\n";
const TAIL = "  .step('end', { prompt: 'Done.', next: terminal })\n  .build();\n";

async function said(source: string): Promise<readonly string[]> {
  return (await linted(IMPORTS + source)).map(
    ({ line, column, severity, rule, message }) => `${line}:${column} ${severity}[${rule}] ${message}`,
  );
}

it('what the builder refuses hides nothing that the other rules find', async () => {
  expect(
    await said(`export default skill({ name: 's', entry: 'gone', env: ['1'] })
  .step('a', { prompt: 'a', next: 'b' })
  .step('b', { prompt: 'b', next: 'a', maxInvalid: 0 })
  .step('c', { prompt: 'c', next: 'nowhere' })
  .step('d', { prompt: 'd' })
${TAIL}`),
  ).toEqual([
    '2:16 error[entry-step] skill "s": entry step "gone" not found in steps. There are: a, b, c, d, end.',
    expect.stringMatching(/^2:16 error\[env-names\] skill "s": env /),
    '3:9 warning[cycle-guard] Steps "a", "b" lead to each other without maxVisits; the implicit limit of 10 visits applies.',
    '4:9 error[step-numbers] Step "b": maxInvalid is 0; it must be a whole number from 1.',
    '5:9 error[unknown-target] Step "c" has next "nowhere" which does not exist in steps.',
    '6:9 error[step-fields] Step "d": next is required. Name the step that comes next, or end the skill with next: terminal.',
  ]);
});

it('what is registered twice, or cannot feed its action, hides nothing', async () => {
  expect(
    await said(`const send = action({ name: 'send', input: z.object({ to: z.string() }), output: z.object({}), run: async () => ({}) });
const sub = skill({ name: 'sub', entry: 'x' }).step('x', { prompt: 'x', next: 'x' }).build();
export default skill({ name: 's', entry: 'a' })
  .subskill('sub', sub)
  .subskill('sub', sub)
  .topic('t', { label: 'T', content: () => 'T' })
  .topic('t', { label: 'T', content: () => 'T' })
  .step('a', { prompt: 'a', response: z.object({ text: z.string() }), action: { run: send } as never, next: 'b' })
  .step('b', { prompt: 'b', next: 'nowhere' })
${TAIL}`),
  ).toEqual([
    '3:53 warning[cycle-guard] [subskill:sub] Step "x" leads to itself without maxVisits; the implicit limit of 10 visits applies.',
    '6:13 error[composite-duplicate-subskill] Sub-skill "sub" is registered twice.',
    '8:10 error[composite-duplicate-topic] Topic "t" is registered twice.',
    expect.stringMatching(/^9:9 error\[step-fields\] Step "a" uses action "send" without an input mapper/),
    '10:9 error[unknown-target] Step "b" has next "nowhere" which does not exist in steps.',
  ]);
});

it('a mistake in a sub-skill hides no mistake of the skill, and is reported once', async () => {
  expect(
    await said(`const sub = skill({ name: 'sub', entry: 'x' }).step('x', { prompt: 'x', next: 'gone' }).build();
export default skill({ name: 's', entry: 'a' })
  .subskill('sub', sub)
  .step('a', { prompt: 'a', next: 'away' })
${TAIL}`),
  ).toEqual([
    '2:53 error[unknown-target] [subskill:sub] Step "x" has next "gone" which does not exist in steps.',
    '5:9 error[unknown-target] Step "a" has next "away" which does not exist in steps.',
  ]);
});

it('a step that a misspelt name may have meant does not count as unreachable', async () => {
  const source = (next: string): string => `export default skill({ name: 's', entry: 'a' })
  .step('a', { prompt: 'a', next: ${next} })
${TAIL}`;
  expect(await said(source("'ende'"))).toEqual([
    '3:9 error[unknown-target] Step "a" has next "ende" which does not exist in steps.',
  ]);
  expect(await said(source('terminal'))).toEqual([
    '4:9 warning[unreachable-step] No transition leads from "a" to step "end".',
  ]);
});

it('lint also reports mistakes of skills in the file that are not part of the exported one', async () => {
  expect(
    await said(`export const other = skill({ name: 'other', entry: 'x' }).step('x', { prompt: 'x', next: 'gone' }).build();
export default skill({ name: 's', entry: 'a' })
  .step('a', { prompt: 'a', next: 'away' })
${TAIL}`),
  ).toEqual([
    '2:64 error[unknown-target] Step "x" has next "gone" which does not exist in steps.',
    '4:9 error[unknown-target] Step "a" has next "away" which does not exist in steps.',
  ]);
});

it('parts that lack something are named, each, and so is what throws in the end', async () => {
  expect(
    await said(`const broken = action({ name: '' } as never);
step({ prompt: 'x' } as never);
const part = module({ name: 'part', entry: 'gone' }).step('m', { prompt: 'm', next: '__parent__' }).build();
export const guide = reference({ name: 'guide', description: '' }).build();
act.survey([]);
act.askUser({ type: 'structured', question: 'Q', options: [] });
export default skill({ name: 's', entry: 'a' })
  .step('a', { prompt: 'a', response: z.object({}), action: { run: broken } as never, next: 'away' })
  .register(part, { next: 'end' })
${TAIL}throw new Error('no luck');
`),
  ).toEqual([
    '8:1 error[definition] action: input schema is required',
    '8:1 error[definition] action: name is required',
    '8:1 error[definition] action: output schema is required',
    '8:1 error[definition] action: run function is required',
    '8:1 error[definition] askUser: options must have 2–4 items, got 0',
    '8:1 error[definition] module "part": entry step "gone" not found in steps. There are: m.',
    '8:1 error[definition] no luck',
    '8:1 error[definition] reference "guide": at least one topic is required. Add one with .topic(name, { label, content }).',
    '8:1 error[definition] reference "guide": description is required. Agents choose a skill by it.',
    '8:1 error[definition] step: next is required. Name the step that comes next, or end the skill with next: terminal.',
    '8:1 error[definition] survey: must have at least 1 question',
    '9:9 error[unknown-target] Step "a" has next "away" which does not exist in steps.',
  ]);
});

it('check shows all that the definition tells, and no definition that its builder refuses', async () => {
  const source = `${IMPORTS}export default skill({ name: 's', entry: 'gone' })
  .step('a', { prompt: 'a', next: 'b' })
  .step('b', { prompt: 'b', next: 'a', maxInvalid: 0 })
${TAIL}`;
  const { definition, diagnostics } = await withSkill(source, async (folder) => await checkSource(folder));
  expect(definition).toBeNull();
  expect(diagnostics.map(({ rule }) => rule).toSorted()).toEqual(['cycle-guard', 'entry-step', 'step-numbers']);
});

it('lint changes nothing for code that loads the skill afterwards', async () => {
  await said(`export default skill({ name: 's', entry: 'gone' })\n${TAIL}`);
  expect(Reflect.get(globalThis, Symbol.for('voidbox.skill-refusals'))).toBeUndefined();
});
