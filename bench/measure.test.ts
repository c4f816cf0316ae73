import { expect, test } from 'vitest';
import { interleave } from './measure.ts';

test('every second round runs the arms backwards, and each arm keeps its own rounds in order', async () => {
  const ran: string[] = [];
  const arm = (name: string) => ({
    name,
    round: async () => {
      ran.push(name);
      return { place: ran.length };
    },
  });
  const [a, b] = await interleave([arm('a'), arm('b')], 3, () => {});
  expect(ran).toEqual(['a', 'b', 'b', 'a', 'a', 'b']);
  expect(a!.rounds).toEqual([{ place: 1 }, { place: 4 }, { place: 5 }]);
  expect(b!.rounds).toEqual([{ place: 2 }, { place: 3 }, { place: 6 }]);
});
