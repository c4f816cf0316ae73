import { expect, test } from 'vitest';
import { code, markdownTable } from './markdown.ts';

const GAP = '\u00a0\u00a0\u00a0';

test('a table separates its cells, and a bar in a cell does not split the cell', () => {
  expect(markdownTable(['step', 'visits'], [['a|b', 1]])).toEqual([
    `| step${GAP} | visits${GAP} |`,
    '|:--|:--|',
    `| a\\|b${GAP} | 1${GAP} |`,
  ]);
});

test('a text of a guest is not Markdown', () => {
  expect(code('![x](http://127.0.0.1/) `b`\nc')).toMatch(/^`!\[x\]\(http:\/\/127\.0\.0\.1\/\) 'b'[^`\n]*c`$/);
});
