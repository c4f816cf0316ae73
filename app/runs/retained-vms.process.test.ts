/** `exec` and `release`, typed for runs without a kept VM. */
import { mkdtempSync, rmSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { leaveFinishedRuns } from '../../test/cli/finished-runs.ts';
import { typeCommand } from '../../test/rig/runs/typed-command.ts';

let dir: string;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-retained-'));
  await leaveFinishedRuns(join(dir, 'state'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const type = (...line: readonly string[]): ReturnType<typeof typeCommand> =>
  typeCommand(line, dir, { VOIDBOX_STATE_DIR: join(dir, 'state') });

const NONE = 'run sales-bad has no VM that a failed stage kept';

test.each<[readonly string[], string]>([
  [['exec', 'sales-bad', 'check', '--', 'ls'], NONE],
  [['exec', 'sales-bad', '--', 'ls', '--json'], NONE],
  // The rest of the line belongs to the command, even if it looks like a run or another separator.
  [['exec', 'sales-bad', '--', 'sh', '--', '--help'], NONE],
  [['exec', '--', 'sales-bad', 'check', '--', 'ls'], NONE],
  [['exec', 'sales-bad', 'check', 'ls'], 'the command is missing'],
  [['exec', 'sales-bad', 'check', '--'], 'the command is missing'],
  [
    ['exec', 'sales-bad', 'check', 'ls', '--', 'ls'],
    '`ls` is not allowed before `--`: write only a run and a stage there',
  ],
  [['exec', 'gone', '--', 'ls'], 'there is no run `gone`'],
  [['exec', '--json', 'sales-bad', '--', 'ls'], "unknown option '--json'"],
  [['exec', '--json', 'sales-bad', '--', 'ls'], '`exec` passes on the output of the command: remove --json'],
  [['exec', 'sales-bad', '--json=1', '--', 'ls'], '`exec` passes on the output of the command: remove --json'],
  [['release', 'sales-bad'], NONE],
  [['release', 'sales-bad', 'check'], NONE],
  [['release', 'gone'], 'there is no run `gone`'],
])('voidbox %j exits with 2 and says why', async (line, message) => {
  const { code, stdout, stderr } = await type(...line);
  expect([code, stdout === '' ? stderr : stdout]).toEqual([2, expect.stringContaining(message)]);
});

test('what follows `--` does not make an error JSON', async () => {
  const { stdout, stderr } = await type('exec', 'sales-bad', '--', 'ls', '--json');
  expect([stdout, stderr.startsWith('{')]).toEqual(['', false]);
});

test('the help of exec lists no --json, and that of release does', async () => {
  expect((await type('exec', '--help')).stdout).not.toContain('--json');
  expect((await type('release', '--help')).stdout).toContain('--json');
});
