/** `npm start` as a newcomer runs it: an agent in a real VM fixes a test, and the command that it prints applies the patch. */
import { execFile, spawnSync } from 'node:child_process';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';
import { Rig } from './e2e/rig.ts';
import { endRig } from './rig/runs/examples.ts';

let rig: Rig;
beforeAll(() => {
  rig = new Rig();
});
afterAll(() => endRig(rig));

const PATCH = `--- a/add.sh
+++ b/add.sh
@@ -1 +1 @@
-echo $(($1 - $2))
+echo $(($1 + $2))
`;

test('npm start ends with the patch of an agent and the command that applies it', async () => {
  const env = { ...rig.env, TMPDIR: rig.specDir };
  const { code, stdout, stderr } = await new Promise<{ code: number | null; stdout: string; stderr: string }>(
    (done) => {
      const child = execFile('npm', ['start', '--silent'], { cwd: findPackageRoot(), env }, (_error, stdout, stderr) =>
        done({ code: child.exitCode, stdout, stderr }),
      );
    },
  );
  expect(code, `${stdout}\n${stderr}`).toBe(0);
  // A pipe gets no colours, so other programs can read the patch.
  expect(stdout).not.toContain('\u001b');
  const [, before = '', command = '', check = ''] =
    /^([^]*)\n\nApply it, and see the test pass:\n {2}(\S.*)\n {2}(\S.*)\n$/.exec(stdout) ?? [];
  expect(before.endsWith(PATCH.trimEnd()), stdout).toBe(true);
  expect(command).toMatch(/^npx voidbox apply fix-\d{8}-\d{6}-[0-9a-f]{4}$/);
  const type = (line: string): { readonly status: number | null; readonly stdout: string } =>
    spawnSync('sh', ['-c', line], { cwd: findPackageRoot(), env, encoding: 'utf8' });
  expect(type(check), 'the test fails before the patch').toMatchObject({ status: 1, stdout: '2 + 3 is not -1\n' });
  expect(type(command)).toMatchObject({ status: 0 });
  expect(type(check)).toMatchObject({ status: 0, stdout: '2 + 3 is 5\n' });
  const [, runId = ''] = /apply (\S+)$/.exec(command) ?? [];
  const { stages } = JSON.parse((await rig.cli('status', runId, '--json')).stdout) as {
    readonly stages: readonly { readonly isolation: string }[];
  };
  expect(
    stages.map(({ isolation }) => isolation),
    'the agent worked in a VM',
  ).toEqual(['microvm']);
});
