/** Folders of repositories as workspaces: the messages of `validate` about them on this host. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { typeCommand } from '../rig/runs/typed-command.ts';

let dir: string;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-here-')));
  for (const name of ['base/.git/objects', 'base/.git/refs', 'base/.voidbox', 'base/packages/a', 'state'])
    mkdirSync(join(dir, name), { recursive: true });
  writeFileSync(join(dir, 'base/.git/HEAD'), 'ref: refs/heads/main\n');
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function validate(folder: string, git: string): Promise<string> {
  const spec = `kind: pipeline\nname: p\npipeline:\n  boxes: [{ name: fix, workspace: { git: ${git} }, run: { program: ls } }]\n`;
  writeFileSync(join(dir, folder, 'p.yaml'), spec);
  const variables = { HOME: dir, VOIDBOX_STATE_DIR: join(dir, 'state') };
  const { code, stderr } = await typeCommand(['validate', 'p.yaml'], join(dir, folder), variables);
  expect(code).toBe(0);
  return stderr.replaceAll(dir, 'DIR');
}

test('a folder within a repository is named with the top folder and the key for it', async () => {
  const told = await validate('base', './packages/a');
  expect(told).toContain(
    'warning[cli/workspace-subfolder]: the spec works in DIR/base/packages/a, which is a folder of the repository DIR/base\n',
  );
  expect(told).toContain('workspace: { git: ., subfolder: packages/a }');
  // A spec in the folder that contains the repository.
  expect(await validate('.', './base/packages/a')).toContain('workspace: { git: base, subfolder: packages/a }');
});

test('the repository that holds the spec needs no permission', async () => {
  expect(await validate('base/.voidbox', '..')).toBe('');
  expect(await validate('base/.voidbox', '../..')).toContain('warning[cli/mount-refused]');
});

test('an address is named that `run` would ask for', async () => {
  expect(await validate('base', 'https://github.com/victim/private')).toContain('p.yaml:4:');
  expect(await validate('base', 'https://github.com/victim/private')).toContain(
    'warning[cli/git-refused]: stage fix fetches https://github.com/victim/private with your git login',
  );
});

test('a repository that a run would fail to pack is named with the code of that failure', async () => {
  writeFileSync(join(dir, 'base/.git/shallow'), `${'a'.repeat(40)}\n`);
  const shallow = await validate('base', '.');
  expect(shallow).toContain(
    'warning[workspace/unusable]: the workspace of stage fix cannot be packed: the repository DIR/base is a shallow clone',
  );
  expect(shallow).toContain('git fetch --unshallow');
  expect(shallow).toContain('p.yaml:4:');
  rmSync(join(dir, 'base/.git/HEAD'));
  expect(await validate('base', '.')).toContain(
    'warning[workspace/unusable]: the workspace of stage fix cannot be packed: DIR/base is no git repository: DIR/base/.git has no `HEAD`',
  );
  mkdirSync(join(dir, 'plain'));
  expect(await validate('.', 'plain')).toContain('DIR/plain is no git repository, or not its top folder');
});
