import { expect, test } from 'vitest';
import { renderPage } from './page.ts';
import { createStyle } from './style.ts';

const PLAIN = createStyle(false);

test('a page has its headings, wrapped paragraphs, indented code and unchanged tables', () => {
  const page = [
    '# A page',
    'One two three four five six seven.',
    '',
    '- **Bold** one two three four five',
    '',
    '<!-- run -->',
    '```console',
    '$ voidbox run a.yaml --with-a-long-option',
    '',
    'printed',
    '```',
    '| a | b |',
    '|---|---|',
  ].join('\n');
  expect(renderPage(page, 'docs/guides', PLAIN, 20)).toBe(
    [
      'A page',
      'One two three four',
      'five six seven.',
      '',
      '- Bold one two three',
      '  four five',
      '',
      '    $ voidbox run a.yaml --with-a-long-option',
      '',
      '    printed',
      '| a | b |',
      '|---|---|',
      '',
    ].join('\n'),
  );
});

test('a link becomes the path of its page, an address, or only its text', () => {
  const page = 'See [Costs](costs.md#limits), [all](../reference/spec.md), [us](https://x.example) and [below](#b).';
  expect(renderPage(page, 'docs/guides', PLAIN, null)).toBe(
    'See Costs (docs/guides/costs.md#limits), all (docs/reference/spec.md), us (https://x.example)\nand below.\n',
  );
});

test('a terminal shows headings in bold and code in colour', () => {
  const style = createStyle(true);
  expect(renderPage('# A\n```sh\nb\n```\n', 'docs', style, 80)).toBe(`${style.bold('A')}\n    ${style.cyan('b')}\n`);
});
