import { expect, test } from 'vitest';
import { hasStage, isOfStage } from './log-stage.ts';

const ITEMS = { total: 3, running: 0, succeeded: 0, failed: 0, failures: [], open: {} };
const STAGES = {
  own: [
    { id: 'list', items: null, attempt: 1 },
    { id: 'resize', items: ITEMS, attempt: 1 },
    { id: 'review', items: ITEMS, attempt: 1 },
    { id: 'again', items: ITEMS, attempt: 3 },
  ],
  ofItems: ['review.lint', 'review.deep.scan', 'review.each', 'review.each.cut'],
  lists: ['review.each'],
};

test.each([
  'list',
  'resize',
  'resize[2]',
  'review[0]',
  'review.lint',
  'review[2].lint',
  'review[0].deep',
  'review[0].each',
  'review[0].each[7]',
  'review[0].each[7].cut',
  'review[0].each.cut',
  'review.each[7]',
  'review[0].each#2[7].cut',
  'again[7]',
  'again#2[7]',
  'again#3[2]',
])('%s is a stage of the run', (name) => {
  expect(hasStage(name, STAGES)).toBe(true);
});

test.each([
  'lis',
  'list[0]',
  'list.x',
  'resize[3]',
  'resize[]',
  'resize.cut',
  'review.nope',
  'review[0].nope',
  'review[3].lint',
  'review[0].lin',
  'review[0]lint',
  'review[0].lint[0]',
  'review[0].each[7].cut[1]',
  'review[0].each[]',
  'review[3].each[7]',
  'reviewlint',
  'resize#2[0]',
  'again#1[0]',
  'again#3[3]',
  'again#4[0]',
  'again#2',
  'review[0].each#2',
])('%s is no stage of the run', (name) => {
  expect(hasStage(name, STAGES)).toBe(false);
});

test('a stage of items whose list is not known yet is known from the plan', () => {
  const early = { ...STAGES, own: [{ id: 'review', items: null, attempt: 0 }] };
  expect(hasStage('review.lint', early)).toBe(true);
  expect(hasStage('review[0].lint', early)).toBe(false);
});

test('lines of a stage, of an item and of a stage within one', () => {
  const output = (stage: string, execKey: string): Parameters<typeof isOfStage>[0] => ({
    type: 'stage-started',
    stage,
    execKey,
    attempt: 1,
  });
  const lint = output('review.lint', 'review.lint/review~2/1');
  for (const name of ['review', 'review[2]', 'review.lint', 'review[2].lint']) expect(isOfStage(lint, name)).toBe(true);
  for (const name of ['review[1]', 'review[2].lin', 'review[2].deep', 'rev']) expect(isOfStage(lint, name)).toBe(false);
  const cut = output('review.each.cut', 'review.each.cut/review~2~review.each~7/1');
  for (const name of ['review[2]', 'review[2].each', 'review[2].each[7]', 'review[2].each[7].cut', 'review.each.cut'])
    expect(isOfStage(cut, name)).toBe(true);
  for (const name of ['review[2].each[70]', 'review[2].each.cut', 'review[1].each', 'review[2].each[7].c'])
    expect(isOfStage(cut, name)).toBe(false);
  const again = output('again', 'again/again~0.2/1');
  expect(['again', 'again#2[0]', 'again[0]', 'again#20[0]'].map((name) => isOfStage(again, name))).toEqual([
    true,
    true,
    false,
    false,
  ]);
  const own = output('list', 'list/0/1');
  expect([isOfStage(own, 'list'), isOfStage(own, 'lis'), isOfStage(own, 'list[0]')]).toEqual([true, false, false]);
});
