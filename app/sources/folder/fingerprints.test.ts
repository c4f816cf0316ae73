import { expect, test } from 'vitest';
import { Fingerprints } from './fingerprints.ts';

test('a table finds each fingerprint with its latest mark, also 0 and those that collide', () => {
  const table = new Fingerprints();
  const keys = [0n, 1n, 1_024n, 2_048n, 2n ** 64n - 1n, ...Array.from({ length: 5_000 }, (_, at) => BigInt(at) << 20n)];
  for (const key of keys) expect([key, table.read(key) === 0 || key === 0n]).toEqual([key, true]);
  for (const key of keys) table.write(key, 1);
  table.write(1_024n, 2);
  expect(table.read(1_024n)).toBe(2);
  expect(keys.every((key) => table.read(key) !== 0)).toBe(true);
  expect([table.size, table.read(3n)]).toEqual([new Set(keys).size, 0]);
});
