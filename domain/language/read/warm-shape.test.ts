import { expect, test } from 'vitest';
import { formatWarmShape, parseWarmShapes, WARM_RANGES } from '../../plan/warm-shape.ts';
import { RANGES } from '../grammar/values.ts';

test('a list of shapes is read, and each one is written as it was read', () => {
  const texts = ['base:512x1=2', 'dev+claude:1024x2=1', 'dev+claude+codex:2048x4=13'];
  const shapes = parseWarmShapes(texts);
  if ('problem' in shapes) throw new Error(shapes.problem);
  expect(shapes[1]).toEqual({ shape: { image: 'dev', layers: ['claude'], memoryMib: 1024, vcpus: 2 }, count: 1 });
  expect(shapes.map(({ shape, count }) => `${formatWarmShape(shape)}=${count}`)).toEqual(texts);
  expect(parseWarmShapes([])).toEqual([]);
});

test.each([
  [['base'], 'it has not the form'],
  [['base:512x1'], 'it has not the form'],
  [['base:512x1=1 '], 'it has not the form'],
  [['debian:512x1=1'], 'neither base nor dev'],
  [['dev+bash:512x1=1'], 'the layers are not'],
  [['dev+claude+claude:512x1=1'], 'the layers are not'],
  [['base:1x1=1'], 'the memory is 1'],
  [['base:512x0=1'], 'the number of CPUs is 0'],
  [['base:512x1=0'], 'the number of VMs is 0'],
  [['base:512x1=17'], 'the number of VMs is 17'],
  [['base:512x1=9', 'base:1024x1=8'], '17 VMs would wait'],
  [['base:512x1=1', 'base:512x1=2'], 'base:512x1 is given twice'],
])('%s is refused with its problem', (texts, problem) => {
  expect(parseWarmShapes(texts)).toEqual({ problem: expect.stringContaining(problem) as string });
});

test('a VM that waits may have each size of a spec', () => {
  expect(RANGES).toMatchObject(WARM_RANGES);
});
