import { expect, test } from 'vitest';
import type { ArmResult } from '../measure.ts';
import { ARMS } from './arms.ts';
import { makeFigures } from './figures.ts';
import { parseBenchLine } from './task.ts';

function makeResults(
  rounds: Readonly<Record<string, readonly Readonly<Record<string, number>>[]>>,
): Map<string, ArmResult<string>> {
  return new Map(Object.entries(rounds).map(([name, each]) => [name, { name, rounds: each }]));
}

function listGoals(results: Map<string, ArmResult<string>>): readonly (readonly [string, number, boolean])[] {
  return makeFigures(results).flatMap(({ goals }) => goals.map(({ what, value, met }) => [what, value, met] as const));
}

test('a ratio is the median of rounds that were taken together', () => {
  const results = makeResults({
    [ARMS.floorBoot]: [{ firstRunMs: 100 }, { firstRunMs: 400 }, { firstRunMs: 100 }],
    [ARMS.vmmBoot]: [{ firstRunMs: 120 }, { firstRunMs: 440 }, { firstRunMs: 90 }],
  });
  expect(listGoals(results)).toEqual([['start to the first KVM_RUN, against the floor', 1.1, true]]);
});

test('a goal is missed by a value beyond its limit, in its direction', () => {
  const results = makeResults({
    [ARMS.qemuFile]: [{ writeMbPerS: 10, readMbPerS: 10 }],
    [ARMS.vmmFile]: [{ writeMbPerS: 14, readMbPerS: 16 }],
    [ARMS.qemuExec]: [{ roundTripMs: 10 }],
    [ARMS.vmmExec]: [{ roundTripMs: 9 }],
  });
  expect(listGoals(results)).toEqual([
    ['exec round trip, against QEMU', 0.9, false],
    ['exec round trip', 9, false],
    ["file in, against QEMU's mailbox", 1.4, false],
    ["file out, against QEMU's mailbox", 1.6, true],
  ]);
});

test('a figure without its arms is left out', () => {
  expect(makeFigures(new Map())).toEqual([]);
});

test('the ratio that decides about mode auto has no goal', () => {
  const results = makeResults({
    [ARMS.qemuSnapshot]: [{ toFirstExecMs: 6000 }],
    [ARMS.vmmDebian]: [{ toFirstExecMs: 9000 }],
  });
  const [figure] = makeFigures(results);
  expect(figure!.rows.at(-1)).toMatchObject({ what: "Debian's kernel, against QEMU restored", value: { median: 1.5 } });
  expect(figure!.goals).toEqual([]);
});

test('a line of another program is refused', () => {
  expect(parseBenchLine('{"kind":"say","text":"x"}')).toEqual({ kind: 'say', text: 'x' });
  for (const text of ['', 'null', '{"kind":"row"}', '[    1.0] kernel message'])
    expect(() => parseBenchLine(text)).toThrow('not a line of the bench');
});
