import { expect, test } from 'vitest';
import { mergeDeep } from './deep-merge.ts';
import { append, EMPTY_LOG, flush, recordsOf, type RecordLog, type StepRecord } from './records.ts';

const record = (turn: number): StepRecord => ({ step: 's', response: {}, result: {}, turn, frame: 0 });
const turns = (log: RecordLog): number[] => [...recordsOf(log)].map(({ turn }) => turn);

test('appending to the newest log copies nothing, and older logs do not change', () => {
  const one = append(EMPTY_LOG, record(1));
  const two = append(one, record(2));
  const three = append(two, record(3));
  expect(three.items).toBe(one.items);
  expect([turns(EMPTY_LOG), turns(one), turns(two), turns(three)]).toEqual([[], [1], [1, 2], [1, 2, 3]]);
});

test('appending to an older log starts another history', () => {
  const one = append(EMPTY_LOG, record(1));
  const two = append(one, record(2));
  const other = append(one, record(9));
  expect([turns(two), turns(other)]).toEqual([
    [1, 2],
    [1, 9],
  ]);
});

test('an older log that went through JSON stays the older one', () => {
  const one = append(EMPTY_LOG, record(1));
  append(one, record(2));
  const read = JSON.parse(JSON.stringify(one)) as RecordLog;
  expect(turns(append(read, record(3)))).toEqual([1, 3]);
});

test('flushed records are counted', () => {
  const log = flush(append(append(EMPTY_LOG, record(1)), record(2)), 'sha256:x');
  expect(log).toEqual({ flushed: 2, flushedRef: 'sha256:x', length: 0, items: [] });
  expect(turns(append(log, record(3)))).toEqual([3]);
});

test('mergeDeep merges plain objects and replaces everything else, changing neither side', () => {
  const target = { a: { x: 1, y: [1, 2] }, b: 1, when: new Date(0) };
  const source = { a: { y: [3] }, b: null, c: undefined, when: new Date(1) };
  expect(mergeDeep(target, source)).toEqual({ a: { x: 1, y: [3] }, b: null, when: new Date(1) });
  expect(target).toEqual({ a: { x: 1, y: [1, 2] }, b: 1, when: new Date(0) });
});

test('a key called __proto__ that came as JSON is a key', () => {
  const merged = mergeDeep({ a: 1 }, JSON.parse('{"__proto__":{"polluted":true}}')) as Record<string, unknown>;
  expect([Object.hasOwn(merged, '__proto__'), merged['polluted'], ({} as Record<string, unknown>)['polluted']]).toEqual(
    [true, undefined, undefined],
  );
});
