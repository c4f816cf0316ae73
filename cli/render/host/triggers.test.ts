import { expect, test } from 'vitest';
import { renderStoppedTriggers, renderTriggers } from './triggers.ts';

const FIVE = { count: 5, names: ['a', 'b\u001b[2J', 'c', 'd', 'e'], hasOpen: true };
const ONE = { count: 1, names: ['review'], hasOpen: false };
const NONE = { count: 0, names: [], hasOpen: false };

test('`up` and `ps` name the deployments that keep the stack up', () => {
  expect(renderTriggers(ONE)).toEqual(['deployments review keeps the stack up']);
  expect(renderTriggers(FIVE)).toEqual(['deployments a, b, c and 2 more keep the stack up']);
  expect(renderTriggers({ ...NONE, hasOpen: true })).toEqual(['deliveries  wait for their runs: the stack stays up']);
  expect(renderTriggers(NONE)).toEqual([]);
  expect(renderTriggers(null)).toEqual(['deployments not known until the service has started: the stack stays up']);
});

test('`down` warns about the deployments that start nothing from now on', () => {
  expect(renderStoppedTriggers(ONE)[0]).toBe('warning: the deployment review starts no run while the stack is down');
  expect(renderStoppedTriggers(FIVE)[0]).toBe(
    'warning: 5 deployments (a, b, c and 2 more) start no run while the stack is down',
  );
  expect([renderStoppedTriggers(NONE), renderStoppedTriggers(null)]).toEqual([[], []]);
});
