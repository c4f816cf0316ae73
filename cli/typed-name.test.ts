import { expect, test } from 'vitest';
import { COMMAND_NAMES } from './command-table.ts';
import { withTypedCommands } from './typed-name.ts';

test('commands in our advice are named as they can be typed', () => {
  const advice = 'See: voidbox status r1 (voidbox ps)\nvoidbox run voidbox.yaml\nAll: voidbox --help';
  expect(withTypedCommands(advice, 'voidbox', COMMAND_NAMES)).toBe(advice);
  expect(withTypedCommands(advice, 'npx voidbox', COMMAND_NAMES)).toBe(
    'See: npx voidbox status r1 (npx voidbox ps)\nnpx voidbox run voidbox.yaml\nAll: npx voidbox --help',
  );
});

test('text that is no command, or already has npx, does not change', () => {
  for (const text of ['npx voidbox up', 'bug in voidbox: x', 'bin/voidbox run', 'a voidbox runner'])
    expect(withTypedCommands(text, 'npx voidbox', COMMAND_NAMES)).toBe(text);
});
