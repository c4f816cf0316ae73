import { expect, test } from 'vitest';
import { checkPlan } from '../../domain/language/check-plan.ts';
import { commandPlan } from './command-plan.ts';

function sandboxOf(sandbox: object): unknown {
  const checked = checkPlan(commandPlan({ program: 'true', sandbox }).plan);
  if ('problems' in checked) throw new Error(checked.problems.join('\n'));
  return checked.plan.scopes[0]!.sandbox;
}

test('the VM of a command with `snapshot: none` boots, and another one may start from a snapshot', () => {
  expect(sandboxOf({ memoryMib: 256, snapshot: 'none' })).toMatchObject({ memoryMib: 256, start: 'cold' });
  expect(sandboxOf({ memoryMib: 256 })).not.toHaveProperty('start');
  expect(sandboxOf({ snapshot: 'none' })).not.toHaveProperty('snapshot');
});

test.each(['deps', '', null, 1])('a command with the snapshot %j is refused', (snapshot) => {
  expect(() => sandboxOf({ snapshot })).toThrow(
    `runCommand: \`sandbox.snapshot\` must be "none", it is ${JSON.stringify(snapshot)}`,
  );
});
