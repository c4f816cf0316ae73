import { expect, test } from 'vitest';
import { ReadyStages } from './ready-stages.ts';

test('stages keep the order of the plan, however they are added and removed', () => {
  const ready = new ReadyStages([2, 5, 9]);
  for (const stage of [7, 0, 10, 3]) ready.add(stage);
  for (const stage of [5, 10, 0]) ready.remove(stage);
  expect(ready.stages).toEqual([2, 3, 7, 9]);
});

test.each([
  ['all that can start', 9, [1, 2, 3, 4, 5, 6], [1, 3, 5], [2, 4, 6]],
  ['only those that have room', 2, [1, 2, 3, 4, 5, 6], [1, 3], [2, 4, 5, 6]],
  ['none without room', 0, [1, 2, 3], [], [1, 2, 3]],
  ['none of those that have to wait', 9, [2, 4], [], [2, 4]],
])('%s: started in order, and the others keep theirs', (_what, room, stages, started, left) => {
  const ready = new ReadyStages(stages);
  const running: number[] = [];
  ready.startWhile(
    () => running.length < room,
    (stage) => stage % 2 === 1 && running.push(stage) > 0,
  );
  expect({ running, left: ready.stages }).toEqual({ running: started, left });
});

test('the list that it was made of is not changed', () => {
  const before = Object.freeze([1, 2, 3]);
  const ready = new ReadyStages(before);
  ready.remove(2);
  ready.startWhile(
    () => true,
    () => true,
  );
  expect({ before, after: ready.stages }).toEqual({ before: [1, 2, 3], after: [] });
});

test('the list is the same one if nothing has changed', () => {
  const before = [1, 2];
  const ready = new ReadyStages(before);
  ready.startWhile(
    () => true,
    () => false,
  );
  expect(ready.stages).toBe(before);
});
