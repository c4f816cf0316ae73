import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Stores } from '../../store/stores.ts';
import { readClientMark } from './client-mark.ts';

const hash = (text: string): string => createHash('sha256').update(text).digest('hex');

async function read(mark: unknown, admission: unknown): Promise<unknown> {
  const stores = { marks: { get: () => Promise.resolve(mark) }, records: { get: () => Promise.resolve(admission) } };
  return await readClientMark('r', stores as unknown as Stores);
}

test('the mark of a run that this host started is read, also one of an earlier build', async () => {
  const mark = { baseDir: '/x', startKey: 'key' };
  expect(await read(mark, { provenKey: hash('key') })).toEqual(mark);
  expect(await read({ baseDir: '/x' }, {})).toEqual({ baseDir: '/x' });
  expect(await read(null, {})).toBeNull();
});

test.each([
  ['was not admitted', null],
  ['proved no start', {}],
  ['proved another start', { provenKey: hash('another') }],
])('a run that %s has no mark', async (_, admission) => {
  expect(await read({ baseDir: '/x', startKey: 'key' }, admission)).toBeNull();
});
