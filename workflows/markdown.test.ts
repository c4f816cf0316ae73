import { expect, test } from 'vitest';
import { code, markdownTable } from './markdown.ts';

const GAP = '\u00a0\u00a0\u00a0';

test('cells of a table stand apart, and one with a bar stays one', () => {
  expect(markdownTable(['step', 'visits'], [['a|b', 1]])).toEqual([
    `| step${GAP} | visits${GAP} |`,
    '|:--|:--|',
    `| a\\|b${GAP} | 1${GAP} |`,
  ]);
});

test('a text of a guest is no Markdown', () => {
  expect(code('![x](http://127.0.0.1/) `b`\nc')).toMatch(/^`!\[x\]\(http:\/\/127\.0\.0\.1\/\) 'b'[^`\n]*c`$/);
});
