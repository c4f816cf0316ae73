import { expect, test } from 'vitest';
import type { Diagnostic } from '../../../domain/errors/diagnostic.ts';
import { renderDiagnostics } from './diagnostics.ts';
import { PLAIN } from '../text/style.ts';
import { displayWidth } from '../text/width.ts';

const SOURCE = 'kind: workflow\nworkflow:\n  steps:\n    - name: a\n      depends_on: [b]\n';
const DIAGNOSTIC: Diagnostic = {
  code: 'spec/unknown-step',
  severity: 'error',
  message: 'step `a` depends on `b`, which does not exist',
  remedy: 'Name one of: a.',
  file: 'x.yaml',
  line: 5,
  column: 20,
};
const render = (diagnostics: readonly Diagnostic[], source: string | null = SOURCE, width = 80): string =>
  renderDiagnostics(diagnostics, new Map(source === null ? [] : [['x.yaml', source]]), { style: PLAIN, width });

test('place, message, the line with a caret below the column, remedy, and the count', () => {
  expect(render([DIAGNOSTIC])).toBe(
    [
      'x.yaml:5:20: error[spec/unknown-step]: step `a` depends on `b`, which does not exist',
      '  5 │       depends_on: [b]',
      '    │                    ^',
      '  help: Name one of: a.',
      '',
      '1 error',
      '',
    ].join('\n'),
  );
});

test('a remedy of several lines has them below each other', () => {
  expect(render([{ ...DIAGNOSTIC, remedy: 'Name a.\nOr remove it.\u001b[31m' }])).toContain(
    '\n  help: Name a.\n        Or remove it.',
  );
});

test('all of them, errors and warnings counted', () => {
  const text = render([
    DIAGNOSTIC,
    { ...DIAGNOSTIC, message: 'another', line: 1, column: 1 },
    { ...DIAGNOSTIC, severity: 'warning', line: 2, column: 1 },
  ]);
  expect(text).toContain('x.yaml:1:1: error');
  expect(text).toContain('x.yaml:2:1: warning');
  expect(text.trimEnd().split('\n').at(-1)).toBe('2 errors, 1 warning');
});

test('the same diagnostic at several places is shown once, with a count and the places', () => {
  const places = Array.from({ length: 41 }, (_, index) => ({ ...DIAGNOSTIC, line: index + 10, column: 3 }));
  const elsewhere = { ...DIAGNOSTIC, file: 'part.yaml', line: 1, column: 2 };
  const lines = render([DIAGNOSTIC, elsewhere, ...places]).split('\n');
  expect(lines.filter((line) => line.includes('does not exist'))).toHaveLength(1);
  expect(lines).toContain('  and 42 more of this kind at part.yaml:1:2, 10:3, 11:3, 12:3, 13:3, 14:3, 15:3, 16:3, …');
  expect(lines.filter((line) => line.includes('help:'))).toHaveLength(1);
  expect(lines).toContain('43 errors');
});

test('the same help is shown once, at the first of different diagnostics', () => {
  const text = render([DIAGNOSTIC, { ...DIAGNOSTIC, message: 'another' }, { ...DIAGNOSTIC, remedy: 'Remove it.' }]);
  expect(text.match(/help: .*/g)).toEqual(['help: Name one of: a.', 'help: Remove it.']);
  expect(text.indexOf('help:')).toBeLessThan(text.indexOf('another'));
});

test('the caret is below the column if wide characters and tabs are before it', () => {
  const lines = render([{ ...DIAGNOSTIC, line: 1, column: 5 }], '日本\t: x').split('\n');
  expect(lines[1]).toBe('  1 │ 日本 : x');
  expect(lines[2]).toBe('    │       ^');
});

test('a hostile spec cannot move the cursor, and a long line is cut', () => {
  const text = render(
    [{ ...DIAGNOSTIC, line: 1, column: 1, message: 'a\u001b[2Jb' }],
    `\u001b[31m${'x'.repeat(200)}`,
    40,
  );
  // eslint-disable-next-line no-control-regex -- control characters are the subject
  expect(text).not.toMatch(/\u001b/);
  expect(text.split('\n')[1]).toHaveLength(40);
});

const LONG = `- { name: first, run: { program: echo, args: ["${'a'.repeat(80)}", "日本語日本語", "HERE", "${'b'.repeat(90)}"] } }`;
const HERE = LONG.indexOf('"HERE"') + 1;

test.each([
  ['in the middle of a long line', LONG, HERE],
  ['behind wide characters and tabs', `\t\t${'日本'.repeat(60)}\t"HERE": x`, 123 + 1],
  ['at the end of a long line', `${'x'.repeat(300)} "HERE"`, 302],
  ['in a line of a MiB', `${'y'.repeat(600_000)}"HERE"${'z'.repeat(400_000)}`, 600_001],
])('the caret of a place %s is below it, at every width', (_what, line, column) => {
  for (const width of [40, 60, 80, 100, 250]) {
    const [, shown, caret] = render([{ ...DIAGNOSTIC, line: 1, column }], line, width).split('\n');
    expect(displayWidth(shown!)).toBeLessThanOrEqual(width);
    const place = displayWidth(caret!.slice(0, caret!.indexOf('^')));
    const before = shown!.slice(0, shown!.indexOf('"HERE'));
    expect(shown).toContain('"HERE"');
    expect(displayWidth(before)).toBe(place);
  }
});

test('a cut line has a mark on the side of the cut', () => {
  const shown = render([{ ...DIAGNOSTIC, line: 1, column: HERE }], LONG, 60).split('\n')[1]!;
  expect(shown).toMatch(/^ {2}1 │ …a+", "日本語日本語", "HERE", "b+…$/);
  const end = render([{ ...DIAGNOSTIC, line: 1, column: LONG.length }], LONG, 60).split('\n')[1]!;
  expect(end).toMatch(/^ {2}1 │ ….*\} \}$/);
});

test('a diagnostic without the text of its file has no excerpt', () => {
  expect(render([DIAGNOSTIC], null).split('\n')[1]).toBe('  help: Name one of: a.');
});
