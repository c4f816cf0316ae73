import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { Screen } from './screen.ts';
import { renderSvg } from './svg.ts';

function shown(...writes: readonly string[]): readonly string[] {
  const screen = new Screen();
  for (const text of writes) screen.write(text);
  return screen.listLines(10).map((line) => line.map(({ text }) => text).join(''));
}

test('a screen shows lines, and a carriage return writes over the line', () => {
  expect(shown('one\r\ntwo\rTW\n')).toEqual(['one', 'TWo']);
});

test('a block that is drawn again replaces the one before', () => {
  expect(shown('log\r\na running\r\nb running\r\n', '\u001b[2A\r\u001b[J', 'more\r\na done\r\n')).toEqual([
    'log',
    'more',
    'a done',
  ]);
});

test('styles begin and end, and a colour replaces another one', () => {
  const screen = new Screen();
  screen.write('\u001b[1mbold\u001b[22m \u001b[36mcyan\u001b[31mred\u001b[39m plain\u001b[0m');
  expect(screen.listLines(1)).toEqual([
    [
      { text: 'bold', codes: [1] },
      { text: ' ', codes: [] },
      { text: 'cyan', codes: [36] },
      { text: 'red', codes: [31] },
      { text: ' plain', codes: [] },
    ],
  ]);
});

test('a sequence that the command line never writes is refused', () => {
  expect(() => shown('\u001b[5;5H')).toThrow('unknown sequence');
});

test('only the last lines are in the window', () => {
  const screen = new Screen();
  screen.write('1\n2\n3\n');
  expect(screen.listLines(2).map((line) => line[0]!.text)).toEqual(['2', '3']);
});

test('an SVG has a frame for each change, shows the last one without animation, and escapes text', () => {
  const line = (text: string) => [[{ text, codes: [] }]];
  const svg = renderSvg(
    [
      { atMs: 0, lines: line('$ a') },
      { atMs: 500, lines: line('<b> & c') },
    ],
    20,
    3,
    1_500,
  );
  expect(svg).toContain('<g id="f0" visibility="hidden">');
  expect(svg).toContain('<g id="f1"><text');
  expect(svg).toContain('&lt;b&gt; &amp; c');
  expect(svg).toContain('@keyframes f1{0%{visibility:hidden}25.00%{visibility:visible}100.00%{visibility:hidden}}');
  expect(svg).toContain('prefers-reduced-motion:no-preference');
});

test('the recording of the documentation has at most 300 KiB, ends with the patch, and names no folder of its maker', () => {
  const svg = readFileSync(join(findPackageRoot(), 'docs/start/first-agent.svg'), 'utf8');
  expect(Buffer.byteLength(svg)).toBeLessThanOrEqual(300 * 1024);
  expect(svg.slice(svg.lastIndexOf('<g id='))).toContain('+echo $(($1 + $2))');
  expect(svg).not.toMatch(/\/(?:home|root|srv|Users)\//);
  expect(svg).not.toContain('<script');
});
