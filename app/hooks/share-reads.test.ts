import { expect, test } from 'vitest';
import { shareReads } from './share-reads.ts';

interface Read {
  readonly key: string;
  readonly end: (value: string) => void;
  readonly fail: (error: Error) => void;
}

function openRig() {
  const reads: Read[] = [];
  const get = shareReads(
    (key) => new Promise<string>((resolve, reject) => reads.push({ key, end: resolve, fail: reject })),
  );
  return { reads, get };
}

const settle = (): Promise<void> => new Promise(setImmediate);

test('calls during a read share the next one, which begins after them', async () => {
  const { reads, get } = openRig();
  const first = get('a');
  const [second, third] = [get('a'), get('a')];
  expect(reads).toHaveLength(1);
  reads[0]!.end('old');
  expect(await first).toBe('old');
  await settle();
  expect(reads).toHaveLength(2);
  const fourth = get('a');
  reads[1]!.end('new');
  expect(await Promise.all([second, third])).toEqual(['new', 'new']);
  await settle();
  reads[2]!.end('newer');
  expect(await fourth).toBe('newer');
  await settle();
  expect(reads).toHaveLength(3);
});

test('a read that fails does so for its callers only', async () => {
  const { reads, get } = openRig();
  const [first, second] = [get('a'), get('a')];
  reads[0]!.fail(new Error('away'));
  await expect(first).rejects.toThrow('away');
  await settle();
  reads[1]!.end('there');
  expect(await second).toBe('there');
});

test('reads of different keys do not wait for each other', async () => {
  const { reads, get } = openRig();
  const [first, second] = [get('a'), get('b')];
  reads.find(({ key }) => key === 'b')!.end('B');
  expect(await second).toBe('B');
  reads[0]!.end('A');
  expect(await first).toBe('A');
});
