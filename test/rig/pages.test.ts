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
  '```yaml',
  'other: text',
  '```',
].join('\n');

test('a page is its files and commands, in their order', () => {
  expect(readPageParts('x.md', page)).toEqual([
    { kind: 'file', path: 'a.yaml', text: 'kind: workflow\n', line: 2 },
    { kind: 'run', commands: ['voidbox run a.yaml   --detach', 'voidbox down'], line: 6 },
    { kind: 'not-run', why: 'it needs a key', commands: ['KEY=… voidbox run a.yaml'], line: 13 },
  ]);
});

test('a block of the console without a mark is refused with its place', () => {
  expect(() => readPageParts('x.md', '# A\n```console\n$ ls\n```\n')).toThrow(
    'x.md:2: write <!-- run --> or <!-- not run: WHY --> before the block',
  );
});
