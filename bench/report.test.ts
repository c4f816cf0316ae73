import { expect, test } from 'vitest';
import { type Figure, type Lane, renderReport, replaceFigures } from './report.ts';

const LANE: Lane = {
  accelerator: 'tcg',
  kernels: ['k'],
  qemu: 'q',
  temporal: 't',
  rounds: 5,
  loads: ['At the start: 1'],
};

function figure(title: string, value: number): Figure {
  return {
    title,
    method: `How ${title} is taken.`,
    rows: [{ what: 'a row', value: { median: value, min: value, max: value }, unit: 'ms' }],
    goals: [{ what: 'it', value, goal: '≤ 2', met: value <= 2 }],
  };
}

test('a figure that is measured again replaces only its own section and shows the date', () => {
  const page = renderReport([figure('(a) one', 1), figure('(b) two', 2), figure('(c) three', 3)], LANE, '2026-01-01');
  const again = replaceFigures(page, [figure('(b) two', 9)], { ...LANE, loads: ['At the start: 7'] }, '2026-02-02');
  const section = /^## \(b\)[^]*?(?=^## )/m;
  expect(again.replace(section, '')).toBe(page.replace(section, ''));
  expect(again).toContain('Taken again 2026-02-02, 5 rounds');
  expect(again).toContain('Load average. At the start: 7.');
  expect(again).toContain('**missed**: it is 9.00');
  // Taken once more, it has one such line.
  const third = replaceFigures(again, [figure('(b) two', 1)], LANE, '2026-03-03');
  expect(third.match(/Taken again/g)).toHaveLength(1);
  expect(third).toMatch(/\n$/);
});

test('a figure that the page does not have yet comes last', () => {
  const page = renderReport([figure('(a) one', 1)], LANE, '2026-01-01');
  const more = replaceFigures(page, [figure('(z) new', 1)], LANE, '2026-02-02');
  expect(more.startsWith(`${page.trimEnd()}\n\n## (z) new\n\nHow (z) new is taken.`)).toBe(true);
  expect(more.match(/^## /gm)).toHaveLength(2);
});
