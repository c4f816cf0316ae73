import { describe, expect, test } from 'vitest';
import { compareLines, MOST_LINES } from './line-diff.ts';

const shown = (one: string, other: string): readonly string[] | null =>
  compareLines(one, other)?.map(({ sign, text }) => `${sign}${text}`) ?? null;

describe('the diff of two texts', () => {
  test('is empty if they are equal', () => {
    expect(shown('a\nb\n', 'a\nb\n')).toEqual([]);
    expect(shown('', '')).toEqual([]);
  });

  test('lists removed and added lines, with the lines around them', () => {
    expect(shown('a\nb\nc\n', 'a\nx\nc\nd\n')).toEqual([' a', '-b', '+x', ' c', '+d']);
    expect(shown('', 'a\n')).toEqual(['+a']);
    expect(shown('a\nb\nc\nd\n', 'b\nd\n')).toEqual(['-a', ' b', '-c', ' d']);
  });

  test('leaves out lines that are far from a change', () => {
    const text = Array.from({ length: 20 }, (_, line) => `${line}\n`);
    expect(shown(text.join(''), text.with(10, 'x\n').join(''))).toEqual([
      ' 7',
      ' 8',
      ' 9',
      '-10',
      '+x',
      ' 11',
      ' 12',
      ' 13',
    ]);
    expect(shown(text.join(''), text.with(2, 'x\n').with(17, 'y\n').join(''))).toContain(' …');
  });

  test('shows a line feed that only one text has at its end', () => {
    expect(shown('a\n', 'a')).toEqual(['-a', '+a (no line feed at the end)']);
  });

  test('is null if too many lines differ, however many lines are equal', () => {
    const lines = (count: number, text: string): string => `${text}\n`.repeat(count);
    expect(shown(lines(MOST_LINES + 1, 'a'), lines(1, 'b'))).toBeNull();
    expect(shown(lines(MOST_LINES, 'a'), lines(MOST_LINES, 'b'))).toHaveLength(2 * MOST_LINES);
    expect(shown(`${lines(5 * MOST_LINES, 'a')}x\n`, `${lines(5 * MOST_LINES, 'a')}y\n`)?.slice(-2)).toEqual([
      '-x',
      '+y',
    ]);
  });
});
