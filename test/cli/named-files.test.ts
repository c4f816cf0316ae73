/** Files that a spec names: what its author may have the command line read, and show. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { typeCommand } from '../rig/runs/typed-command.ts';
import { makeStateFolder } from '../rig/runs/state-folder.ts';

const PART = 'kind: workflow\nname: p\nworkflow: { steps: [{ name: a, run: { program: ls } }] }\n';

let dir: string;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-named-')));
  for (const name of ['clone/ci', 'other', 'state']) mkdirSync(join(dir, name), { recursive: true });
  writeFileSync(join(dir, 'secret.yaml'), 'token: &x s3cr3t-t0ken\n');
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function validate(uses: string, folder = 'clone'): Promise<{ code: number; told: string }> {
  const spec = `kind: workflow\nname: w\nworkflow: { steps: [{ name: a, uses: "${uses}" }] }\n`;
  writeFileSync(join(dir, folder, 'w.yaml'), spec);
  const env = { HOME: dir, VOIDBOX_STATE_DIR: join(dir, 'state') };
  const { code, stdout, stderr } = await typeCommand(['validate', 'w.yaml'], join(dir, folder), env);
  return { code, told: (stdout + stderr).replaceAll(dir, 'DIR') };
}

test.each([
  ['a link to a file', './x.yaml', (clone: string) => symlinkSync('../secret.yaml', join(clone, 'x.yaml'))],
  ['a link to a folder', './up/secret.yaml', (clone: string) => symlinkSync('..', join(clone, 'up'))],
  ['a path', '../secret.yaml', () => undefined],
])('a part that leads out of the folder of the spec by %s shows no line of the file', async (_how, uses, make) => {
  make(join(dir, 'clone'));
  const { code, told } = await validate(uses);
  expect(code).toBe(2);
  expect(told).not.toContain('s3cr3t');
  expect(told).toContain('it leads to DIR/secret.yaml, which is neither in the folder of the spec,');
});

test('a part may lie in the repository that holds the spec', async () => {
  writeFileSync(join(dir, 'clone/part.yaml'), PART);
  expect((await validate('../part.yaml', 'clone/ci')).code).toBe(2);
  mkdirSync(join(dir, 'clone/.git'));
  expect((await validate('../part.yaml', 'clone/ci')).code).toBe(0);
});

test('a part may lie in a folder that the user allows, which no link there leads out of', async () => {
  writeFileSync(join(dir, 'part.yaml'), PART);
  makeStateFolder(join(dir, 'state'));
  writeFileSync(join(dir, 'state/mounts.json'), JSON.stringify({ folders: [join(dir, 'other')] }));
  symlinkSync(join(dir, 'part.yaml'), join(dir, 'other/part.yaml'));
  expect((await validate('../other/part.yaml')).code).toBe(2);
  rmSync(join(dir, 'other/part.yaml'));
  writeFileSync(join(dir, 'other/part.yaml'), PART);
  expect((await validate('../other/part.yaml')).code).toBe(0);
});
