import { expect, test } from 'vitest';
import type { CommandEntry } from './command-entry.ts';
import { COMMANDS } from './command-table.ts';
import { toUsageError } from './usage-error.ts';

const typed = (name: string) => ({
  entry: COMMANDS.find((each) => each.name === name) as CommandEntry,
  family: undefined,
  withoutJson: undefined,
  beforeFirst: undefined,
});

test.each([
  ['--auto-snapshot', 'VMs start from snapshots without an option'],
  ['--snapshot=abc', 'Write `snapshot` in the `sandbox` of the spec'],
])('the option %s of Void-Box is refused with the form to write', (option, remedy) => {
  const error = toUsageError(`error: unknown option '${option}'\n(Did you mean --param?)\n`, typed('run'));
  expect(error).toMatchObject({ code: 'cli/usage', message: `unknown option '${option}'` });
  expect(error.remedy).toContain(remedy);
  expect(error.remedy).not.toContain('Did you mean');
  expect(error.remedy).toContain('All options: voidbox run --help');
});

test('the size of a snapshot as Void-Box writes it is refused with the form to write', () => {
  const family = COMMANDS.find((each) => each.name === 'snapshot')!;
  const entry = 'commands' in family ? family.commands.find(({ name }) => name === 'create') : undefined;
  const error = toUsageError("error: unknown option '--memory'", { ...typed('run'), entry });
  expect(error.remedy).toContain('Write `memory_mb` in its `sandbox`');
  expect(toUsageError("error: unknown option '--memory'", typed('run')).remedy).not.toContain('memory_mb');
});

test('another unknown option keeps the suggestion of the parser', () => {
  const error = toUsageError("error: unknown option '--parm'\n(Did you mean --param?)\n", typed('run'));
  expect(error.remedy).toBe('Did you mean --param?\nAll options: voidbox run --help');
});
