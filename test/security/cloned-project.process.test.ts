/**
 * Attacks of the author of a cloned project on its user, by files that runs leave and by the git folder of the project.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { GIT_PATH } from '../rig/git/git-path.ts';
import { type LeftRun, openLeftRun } from '../rig/git/run-with-changes.ts';

let left: LeftRun;
let app: string;
let canary: string;
beforeEach(async () => {
  left = await openLeftRun();
  left.terminal.variables = { PATH: `${GIT_PATH}:${process.env['PATH']}` };
  ({ app } = left);
  canary = join(left.terminal.dir, 'canary');
});
afterEach(() => left.close());

/** Leaves files that a stage adds and that run later: the first has a mark, the second has no mark. */
async function leaveProgramsBehind(): Promise<void> {
  await left.leaveRun({
    fix: await left.outputsOf((folder) => {
      writeFileSync(join(folder, 'Makefile'), `all:\n\ttouch ${canary}\n`);
      writeFileSync(
        join(folder, 'helper.mjs'),
        `import { writeFileSync } from 'node:fs';\nwriteFileSync(${JSON.stringify(canary)}, '');\n`,
      );
      left.commit(folder);
    }),
  });
}

test('`apply --check` marks a file that a build runs, does not mark each program, and says that the marks are never complete', async () => {
  await leaveProgramsBehind();
  const { code, stderr } = await left.terminal.type('apply', 'r1', '--check');
  expect(code, stderr).toBe(0);
  expect(stderr).toMatch(/^ {2}A Makefile {2}\+2 -0 {2}\S/m);
  expect(stderr).toMatch(/^ {2}A helper\.mjs {2}\+2 -0$/m);
  expect(stderr).toContain(
    '1 file is marked: programs run or read it without a question; the marks are never complete, so read every change\n',
  );
  expect(existsSync(join(app, 'Makefile'))).toBe(false);
});

test('`apply` takes files of a stage that programs of the user run later, and runs none of them', async () => {
  await leaveProgramsBehind();
  const { code, stderr } = await left.terminal.type('apply', 'r1');
  expect(code, stderr).toBe(0);
  expect(readFileSync(join(app, 'Makefile'), 'utf8')).toContain('touch');
  expect(existsSync(canary)).toBe(false);
  execFileSync(process.execPath, [join(app, 'helper.mjs')]);
  expect(existsSync(canary)).toBe(true);
});

test('git of the user runs a program that the git folder of a project names, before and after Voidbox, which runs none', async () => {
  const program = join(app, '.git/program');
  writeFileSync(program, `#!/bin/sh\ntouch ${canary}\n`);
  chmodSync(program, 0o755);
  left.git(app, 'config', 'core.fsmonitor', program);
  const ranByGit = (): boolean => {
    rmSync(canary, { force: true });
    left.git(app, 'status');
    return existsSync(canary);
  };
  expect(ranByGit()).toBe(true);
  rmSync(canary);
  await leaveProgramsBehind();
  const { code, stderr } = await left.terminal.type('apply', 'r1');
  expect(code, stderr).toBe(0);
  expect(existsSync(canary)).toBe(false);
  expect(ranByGit()).toBe(true);
});
