import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const textOf = (file: string): string => readFileSync(new URL(file, import.meta.url), 'utf8');

test('the drawing at the head of machine.ts contains every phase of a cursor', () => {
  const [, declared = ''] = /export type Phase =([^]*?);\n\n/.exec(textOf('state.ts')) ?? [];
  const phases = [...declared.matchAll(/readonly kind: '([a-z-]+)'/g)].map(([, kind]) => kind!);
  expect(phases).toContain('stuck');
  const [, head = ''] = /^\/\*\*([^]*?)\*\//.exec(textOf('machine.ts')) ?? [];
  expect(phases.filter((phase) => !new RegExp(`(?<![\\w-])${phase}(?![\\w-])`).test(head))).toEqual([]);
});
