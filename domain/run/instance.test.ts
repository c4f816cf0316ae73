import { describe, expect, test } from 'vitest';
import {
  INSTANCE_LIMITS,
  findInstanceProblem,
  formatInstance,
  type InstancePath,
  parseInstance,
  readInstance,
  formatStageName,
} from './instance.ts';

const step = (part: string, item: number): InstancePath[number] => ({ part, item });

const PATHS: readonly (readonly [string, InstancePath])[] = [
  ['0', []],
  ['pages~0', [step('pages', 0)]],
  ['pages~4999', [step('pages', 4_999)]],
  ['pages~17~tables~3', [step('pages', 17), step('tables', 3)]],
  ['0~0', [step('0', 0)]],
  ['0~0~0~0', [step('0', 0), step('0', 0)]],
  ['a.b-c_d~999999', [step('a.b-c_d', 999_999)]],
  ['_shared~1', [step('_shared', 1)]],
  ['pages~3.2', [{ part: 'pages', item: 3, attempt: 2 }]],
  ['pages~0.5000', [{ part: 'pages', item: 0, attempt: 5_000 }]],
  ['a.2~1~b~0.17', [step('a.2', 1), { part: 'b', item: 0, attempt: 17 }]],
];

describe('the text of an instance path', () => {
  test.each(PATHS)('%s', (text, path) => {
    expect(formatInstance(path)).toBe(text);
    expect(parseInstance(text)).toEqual(path);
  });

  test.each([
    '',
    '1',
    '00',
    'pages',
    'pages~',
    '~0',
    '~',
    'pages~00',
    'pages~01',
    'pages~-1',
    'pages~1.0',
    'pages~1e3',
    'pages~ 1',
    'pages~1000000',
    'pages~9007199254740993',
    'pages~1~',
    'pages~1.1',
    'pages~1.02',
    'pages~1.2.3',
    'pages~1.5001',
    'pages~1.',
    'pages~1~tables',
    'pages~1~~2',
    'pages~1/2',
    '.hidden~1',
    '-x~1',
    '..~1',
    'größe~1',
    'a~1~b~1~c~1~d~1~e~1',
    `${'x'.repeat(65)}~1`,
  ])('%j is not a path', (text) => {
    expect(parseInstance(text)).toBeNull();
  });

  test('the number of the last item is one below the limit', () => {
    const last = INSTANCE_LIMITS.items - 1;
    expect(parseInstance(formatInstance([step('p', last)]))).toEqual([step('p', last)]);
    expect(() => formatInstance([step('p', INSTANCE_LIMITS.items)])).toThrow('part p has no item 1000000');
    expect(() => formatInstance([step('p', -1)])).toThrow('no item -1');
    expect(() => formatInstance([step('p', 0.5)])).toThrow('no item 0.5');
  });

  test('parts are nested up to the limit and no deeper', () => {
    const deep = Array.from({ length: INSTANCE_LIMITS.depth }, (_, at) => step(`p${at}`, at));
    expect(parseInstance(formatInstance(deep))).toEqual(deep);
    expect(() => formatInstance([...deep, step('more', 0)])).toThrow('nested 5 deep, at most 4');
  });

  test('names that are too long together are refused with their places', () => {
    // 57 + `~1` twice, with a `~` between: 119 bytes.
    const fits: InstancePath = [step('x'.repeat(57), 1), step('y'.repeat(57), 1)];
    const exactly: InstancePath = [step('x'.repeat(57), 10), step('y'.repeat(57), 1)];
    const over: InstancePath = [step('x'.repeat(57), 10), step('y'.repeat(57), 10)];
    expect(formatInstance(fits)).toHaveLength(119);
    expect(parseInstance(formatInstance(exactly))).toEqual(exactly);
    expect(formatInstance(exactly)).toHaveLength(INSTANCE_LIMITS.textBytes);
    expect(findInstanceProblem(over)).toContain('have 121 bytes in total, at most 120 are allowed');
    expect(parseInstance(`${'x'.repeat(57)}~10~${'y'.repeat(57)}~10`)).toBeNull();
  });

  test.each(['a~b', 'a/b', '', '.', '-a', 'a b', 'x'.repeat(65)])('%j is not the id of a part', (part) => {
    expect(() => formatInstance([step(part, 0)])).toThrow('is not the id of a part');
  });
});

test.each<[string, InstancePath, string]>([
  ['resize', [], 'resize'],
  ['resize', [{ part: 'resize', item: 3 }], 'resize[3]'],
  ['resize', [{ part: 'resize', item: 3, attempt: 2 }], 'resize#2[3]'],
  ['build', [{ part: 'deploy', item: 0 }], 'deploy[0].build'],
  // The name in a plan.
  ['deploy.build', [{ part: 'deploy', item: 0 }], 'deploy[0].build'],
  ['deploy.build', [], 'deploy.build'],
])('%s in %j is shown as %s', (stage, path, shown) => {
  expect(formatStageName(stage, path)).toBe(shown);
});

test.each<[unknown, boolean]>([
  [[], true],
  [[{ part: 'a', item: 0 }], true],
  [[{ part: 'a', item: 0, more: 1 }], true],
  [[{ part: 'a', item: 0, attempt: 0 }], false],
  [[{ part: 'a', item: 0, attempt: 5_001 }], false],
  [[{ part: 'a', item: 0, attempt: '2' }], false],
  [undefined, false],
  [{ length: 1 }, false],
  [[null], false],
  [[{ part: 'a~b', item: 0 }], false],
  [[{ part: 'a', item: -1 }], false],
  [[{ part: 'a', item: '0' }], false],
  [Array.from({ length: 5 }, () => ({ part: 'a', item: 0 })), false],
])('%j is a path of instances: %s', (value, isPath) => {
  const path = readInstance(value);
  expect(path !== null).toBe(isPath);
  for (const step of path ?? []) expect(Object.keys(step)).toEqual(['part', 'item']);
});
