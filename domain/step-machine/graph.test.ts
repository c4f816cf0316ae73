import { expect, test } from 'vitest';
import { findComponents, cycleMembers, findReachable, type Edges } from './graph.ts';

const graph = (edges: Record<string, string[]>): Edges => new Map(Object.entries(edges));

test('defect: all members of a component are found, also those that no back edge of a search closes', () => {
  expect([...cycleMembers(graph({ a: ['b', 'c'], b: ['a'], c: ['b'], d: ['a'] }))].toSorted()).toEqual(['a', 'b', 'c']);
});

test('a step that leads to itself is a cycle, a lone step is not', () => {
  expect([...cycleMembers(graph({ a: ['a', 'b'], b: [] }))]).toEqual(['a']);
  expect([...cycleMembers(graph({ a: ['b'], b: ['a', 'c'], c: [] }))].toSorted()).toEqual(['a', 'b']);
});

test('components agree with what can reach each other, on random graphs', () => {
  let seed = 7;
  const random = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
  for (let round = 0; round < 200; round++) {
    const names = Array.from({ length: 1 + random(8) }, (_, i) => `n${i}`);
    const edges = graph(Object.fromEntries(names.map((name) => [name, names.filter(() => random(4) === 0)])));
    const mutual = (a: string, b: string): boolean =>
      findReachable(edges, [a]).has(b) && findReachable(edges, [b]).has(a);
    for (const members of findComponents(edges)) {
      for (const a of names) expect(members.includes(a)).toBe(mutual(a, members[0]!));
    }
  }
});

test('a chain of a hundred thousand steps needs no stack', () => {
  const edges = new Map(Array.from({ length: 100_000 }, (_, i) => [`n${i}`, i === 99_999 ? ['n0'] : [`n${i + 1}`]]));
  expect(cycleMembers(edges).size).toBe(100_000);
});
