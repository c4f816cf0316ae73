import { expect, test } from 'vitest';
import { COMMAND_NAMES } from './command-table.ts';
import { renderFirstSteps } from './first-steps.ts';
import { createStyle } from './render/text/style.ts';
import { withTypedCommands } from './typed-name.ts';

test('the first steps name commands as the user types them, in columns', () => {
  const text = renderFirstSteps(createStyle(false), (command) =>
    withTypedCommands(command, 'npx voidbox', COMMAND_NAMES),
  );
  const [, ...steps] = text.trimEnd().split('\n');
  expect(steps).toHaveLength(4);
  for (const step of steps) expect(step).toMatch(/^ {2}npx voidbox /);
  expect(new Set(steps.map((step) => /^ {2}\S.*? {2,}/.exec(step)![0].length)).size).toBe(1);
});
