import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { writeRules } from './render-docs.ts';

const FILE = new URL('../../docs/reference/skill-lint.md', import.meta.url);

test('docs/reference/skill-lint.md has every rule, as its file has it; UPDATE=1 writes it', () => {
  if (process.env['UPDATE'] === '1') writeFileSync(FILE, writeRules(readFileSync(FILE, 'utf8')));
  const page = readFileSync(FILE, 'utf8');
  expect(page).toBe(writeRules(page));
});

test('a page without a place for the rules is an error', () => {
  expect(() => writeRules('# Lint\n')).toThrow('no place for the rules');
});
