import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { writeMistakes, writeNotifyTables, writeTables, writeTriggerTables } from './docs.ts';
import { renderSpecSchema } from './json-schema.ts';
import { RANGES } from './values.ts';

const HINT = 'is stale; UPDATE=1 npx vitest run domain/language/grammar writes it';

test.each<[string, (text: string) => string]>([
  ['docs/reference/spec.md', writeTables],
  ['docs/reference/triggers.md', writeTriggerTables],
  ['docs/reference/notifications.md', writeNotifyTables],
  ['docs/reference/mistaken-keys.md', writeMistakes],
  ['docs/spec.schema.json', renderSpecSchema],
])('%s is what the tables of the grammar generate', (path, render) => {
  const file = new URL(`../../../${path}`, import.meta.url);
  if (process.env['UPDATE'] === '1') writeFileSync(file, render(readFileSync(file, { encoding: 'utf8', flag: 'a+' })));
  const text = readFileSync(file, 'utf8');
  expect(text, `${path} ${HINT}`).toBe(render(text));
});

test.each([
  ['a marker of no table', '<!-- keys: stages -->\n<!-- end -->\n', 'a marker for stages, which is not a table'],
  [
    'a table without a marker',
    '# The spec\n',
    'no place for the keys of spec, params, workflow, pipeline, part, stage, approval, wait, workspace, agent, budget, llm, skill, sandbox, skills',
  ],
])('%s in docs/reference/spec.md is reported', (_what, text, message) => {
  expect(() => writeTables(text)).toThrow(message);
});

test('a table of triggers without a marker is reported', () => {
  expect(() => writeTriggerTables('# Triggers\n')).toThrow(
    'no place for the keys of trigger, webhook, schedule, folder, outbox, queue',
  );
});

test('a page without a place for mistaken keys is reported', () => {
  expect(() => writeMistakes('# Mistaken keys\n')).toThrow('no place for the list');
});

test('the reference has each mapping once', () => {
  const page = readFileSync(new URL('../../../docs/reference/spec.md', import.meta.url), 'utf8');
  const count = (key: string): number =>
    [...page.matchAll(/^\| \[?`([^`]+)`/gm)].filter(([, first]) => first === key).length;
  // Keys of mappings that several other mappings have.
  for (const key of [
    'retry.max_attempts',
    'max_turns',
    'skills[].image',
    'choices',
    'mock.exit_code',
    'subfolder',
    'price.input',
  ])
    expect(count(key), key).toBe(1);
  expect(page).not.toMatch(/`(?:defaults\.retry|agent\.skills\[\]|workspace|params\.NAME|budget)\.\w+`/);
});

test('seconds, US dollars and factors are the numbers with decimals, as the reference states', () => {
  const decimals = Object.values(RANGES).filter(({ integer }) => !integer);
  const units = new Set<string>(decimals.map(({ unit }) => unit));
  expect([...units].toSorted()).toEqual(['US dollars', 'seconds', 'times']);
  expect(Object.values(RANGES).filter(({ integer, unit }) => integer && units.has(unit))).toEqual([]);
});
