import { expect, test } from 'vitest';
import { readPageParts } from './pages.ts';

const page = [
  '# A page',
  '<!-- file: a.yaml -->',
  '```yaml',
  'kind: workflow',
  '```',
  '<!-- run -->',
  '```console',
  '$ voidbox run a.yaml \\',
  '  --detach',
  'printed',
  '$ voidbox down',
  '```',
  '<!-- not run: it needs a key -->',
  '```console',
  '$ KEY=… voidbox run a.yaml',
  '```',
  '<!-- run in: docs/y.md -->',
  '```console',
  '$ voidbox ps',
  '```',
  '```yaml',
  'other: text',
  '```',
].join('\n');

test('a page is its files and commands, in their order', () => {
  expect(readPageParts('x.md', page)).toEqual([
    { kind: 'file', path: 'a.yaml', text: 'kind: workflow\n', line: 2 },
    { kind: 'run', commands: ['voidbox run a.yaml   --detach', 'voidbox down'], line: 6 },
    { kind: 'not-run', why: 'it needs a key', commands: ['KEY=… voidbox run a.yaml'], line: 13 },
    { kind: 'run-in', page: 'docs/y.md', commands: ['voidbox ps'], line: 17 },
  ]);
});

test('a block of the console without a mark is refused with its place', () => {
  expect(() => readPageParts('x.md', '# A\n```console\n$ ls\n```\n')).toThrow(
    'x.md:2: write <!-- run -->, <!-- run in: PAGE --> or <!-- not run: WHY --> before the block',
  );
});
