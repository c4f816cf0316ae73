import { expect, test } from 'vitest';
import { findTree, parsePssMib, parseStat } from './processes.ts';

test('a process counts with its ended children, behind a name that looks like fields', () => {
  const stat = '7 (a) R 1 2 3) S 3 7 7 0 -1 4194560 9 8 7 6 150 25 4 1 20 0 1 0';
  expect(parseStat(stat)).toEqual({ parent: 3, cpuMs: 1_800 });
});

test('a tree has the descendants of its root and no other process', () => {
  const parents = { 2: 1, 5: 9, 6: 5, 7: 5, 9: 1, 10: 6 };
  const stats = new Map(Object.entries(parents).map(([pid, parent]) => [Number(pid), { parent, cpuMs: 1 }]));
  expect(findTree(5, stats).toSorted((a, b) => a - b)).toEqual([5, 6, 7, 10]);
});

test('proportional memory is the sum of a process, not one of its parts', () => {
  const rollup = '00400000-7fff [rollup]\nRss:  90 kB\nPss:     3072 kB\nPss_Dirty:  1024 kB\nPss_Anon:  512 kB\n';
  expect(parsePssMib(rollup)).toBe(3);
  expect(() => parsePssMib('Rss: 4 kB\n')).toThrow('no Pss');
});
