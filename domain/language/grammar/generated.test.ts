import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { writeTables } from './docs.ts';
import { renderSpecSchema } from './json-schema.ts';

const HINT = 'is stale; UPDATE=1 npx vitest run domain/language/grammar writes it';

test.each<[string, (text: string) => string]>([
  ['docs/reference/spec.md', writeTables],
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
    'no place for the keys of spec, workflow, pipeline, part, stage, approval, wait, workspace, mock, agent, llm, skill, sandbox',
  ],
])('%s in docs/reference/spec.md is reported', (_what, text, message) => {
  expect(() => writeTables(text)).toThrow(message);
});
