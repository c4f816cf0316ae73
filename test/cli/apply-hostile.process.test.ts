/** `voidbox apply` to a repository whose author is hostile. */
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { GIT_PATH } from '../rig/git/git-path.ts';
import { plantPrograms } from '../rig/git/hostile-repository.ts';
import { type LeftRun, openLeftRun } from '../rig/git/run-with-changes.ts';

let left: LeftRun;
let app: string;
let victim: string;
beforeEach(async () => {
  left = await openLeftRun();
  left.terminal.variables = { PATH: `${GIT_PATH}:${process.env['PATH']}` };
  ({ app } = left);
  victim = join(left.terminal.dir, 'victim');
  mkdirSync(victim);
  writeFileSync(join(victim, 'a.txt'), 'one\ntwo\nthree\n');
  await left.leaveRun({
    fix: await left.outputsOf((folder) => {
      writeFileSync(join(folder, 'a.txt'), 'one\ntwo\nTHREE\n');
      writeFileSync(join(folder, 'planted'), 'x');
      left.commit(folder);
    }),
  });
});
afterEach(() => left.close());

const isUntouched = (): boolean =>
  readdirSync(victim).join(' ') === 'a.txt' && readFileSync(join(victim, 'a.txt'), 'utf8') === 'one\ntwo\nthree\n';

describe('voidbox apply writes only below the folder that the user named', () => {
  test.each(['config', 'config.worktree'])('`core.worktree` in %s leads nowhere else', async (file) => {
    if (file === 'config.worktree') left.git(app, 'config', 'extensions.worktreeConfig', 'true');
    left.git(app, 'config', '--file', join(app, '.git', file), 'core.worktree', victim);
    for (const args of [[], ['--repository', app], ['--branch'], ['--check']]) {
      const { code, stderr } = await left.terminal.type('apply', 'r1', ...args);
      expect([code, stderr]).toEqual([
        2,
        expect.stringContaining('/DIR/app names another folder as its working tree: `core.worktree` is /DIR/victim'),
      ]);
    }
    expect(isUntouched()).toBe(true);
  });

  test('a bare repository has no working tree, whatever its configuration says', async () => {
    const bare = join(left.terminal.dir, 'bare');
    cpSync(join(app, '.git'), bare, { recursive: true });
    left.git(bare, 'config', 'core.bare', 'false');
    const plain = await left.terminal.type('apply', 'r1', '--repository', bare);
    expect([plain.code, plain.stderr]).toEqual([
      2,
      expect.stringContaining('/DIR/bare is bare and has no working tree'),
    ]);
    left.git(bare, 'config', 'core.worktree', victim);
    const { code, stderr } = await left.terminal.type('apply', 'r1', '--repository', bare);
    expect([code, stderr]).toEqual([2, expect.stringContaining('`core.worktree` is /DIR/victim')]);
    expect(stderr).toContain('Name the repository: voidbox apply r1 --repository FOLDER');
    expect(isUntouched()).toBe(true);
  });

  test('a folder within a repository is not its top folder, and the error names that one', async () => {
    mkdirSync(join(app, 'sub'));
    const { code, stderr } = await left.terminal.type('apply', 'r1', '--repository', join(app, 'sub'));
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining('it lies in the repository /DIR/app: name that folder'),
    ]);
  });

  test('records and links that the author leaves in `.git` count for nothing', async () => {
    const store = join(app, '.git/voidbox-apply-planted');
    mkdirSync(store);
    writeFileSync(join(store, '0'), 'hostile');
    symlinkSync(victim, join(app, '.git/voidbox-before-planted'));
    symlinkSync(join(victim, 'lock'), join(app, '.git/voidbox-apply.lock'));
    const name = Buffer.from('a.txt').toString('base64');
    const files = [{ name, was: '0'.repeat(40), becomes: '1'.repeat(40), isThere: true }];
    writeFileSync(join(store, 'record.json'), JSON.stringify({ sinceMs: 0, files }));
    const { code, stderr } = await left.terminal.type('apply', 'r1');
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('was killed')]);
    expect(readFileSync(join(app, 'a.txt'), 'utf8')).toBe('one\ntwo\nTHREE\n');
    expect(isUntouched()).toBe(true);
  });
});

describe('voidbox apply --branch', () => {
  test('changes no repository that a file or a link as `.git` leads to', async () => {
    const other = join(left.terminal.dir, 'other');
    mkdirSync(other);
    for (const plant of [
      () => writeFileSync(join(other, '.git'), `gitdir: ${join(app, '.git')}\n`),
      () => symlinkSync(join(app, '.git'), join(other, '.git')),
      () => {
        cpSync(join(app, '.git'), join(other, '.git'), { recursive: true });
        writeFileSync(join(other, '.git/commondir'), `${join(app, '.git')}\n`);
      },
    ]) {
      rmSync(join(other, '.git'), { recursive: true, force: true });
      plant();
      const { code, stderr } = await left.terminal.type('apply', 'r1', '--branch', '--repository', other);
      expect([code, stderr]).toEqual([
        2,
        expect.stringContaining('a repository that does not name /DIR/other as its working tree'),
      ]);
      expect(stderr).toContain('Name the repository that gets the branch: voidbox apply r1 --branch --repository ');
    }
    expect(left.git(app, 'branch', '--list', 'voidbox/*')).toBe('');
  });

  test.each(['objects', 'objects/pack', 'refs', 'refs/heads', 'refs/heads/voidbox'])(
    'writes through no link as .git/%s',
    async (place) => {
      const outside = join(left.terminal.dir, 'outside');
      const path = join(app, '.git', place);
      if (existsSync(path)) renameSync(path, outside);
      else mkdirSync(outside);
      symlinkSync(outside, path);
      const { code, stderr } = await left.terminal.type('apply', 'r1', '--branch');
      expect([code, stderr]).toEqual([2, expect.stringContaining(`/DIR/app/.git/${place} is a link`)]);
      expect(left.git(app, 'branch', '--list', 'voidbox/*')).toBe('');
    },
  );

  test('makes the branch of a linked working tree, a submodule, and a repository that borrows objects', async () => {
    const { dir } = left.terminal;
    const linked = join(dir, 'linked');
    left.git(app, 'worktree', 'add', '-q', linked, 'HEAD');
    const shared = join(dir, 'shared');
    left.git(dir, 'clone', '-q', '--shared', app, shared);
    const above = join(dir, 'above');
    left.git(dir, 'init', '-q', above);
    left.git(above, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', app, 'sub');
    for (const repository of [linked, shared, join(above, 'sub')]) {
      const { code, stderr } = await left.terminal.type('apply', 'r1', '--branch', '--repository', repository);
      expect([code, stderr]).toEqual([0, expect.stringContaining('branch voidbox/r1/fix')]);
      expect(left.git(repository, 'log', '-1', '--format=%s', 'voidbox/r1/fix')).toBe('by the guest\n');
      expect(left.git(repository, 'fsck', '--strict')).toBe('');
    }
    expect(lstatSync(join(app, '.git/refs/heads/voidbox/r1/fix')).isFile()).toBe(true);
  });
});

test.each([[], ['--check'], ['--branch']])(
  'voidbox apply %s starts no program that the repository names',
  async (...args) => {
    const canary = join(left.terminal.dir, 'canary');
    plantPrograms(join(app, '.git'), canary);
    writeFileSync(join(app, '.gitattributes'), '* filter=x diff=x merge=x\n');
    const bin = join(left.terminal.dir, 'bin');
    const log = join(left.terminal.dir, 'log');
    mkdirSync(bin);
    const script = `#!/bin/sh\necho "$GIT_DIR" >> ${log}\nPATH=${GIT_PATH} exec git "$@"\n`;
    writeFileSync(join(bin, 'git'), script, { mode: 0o755 });
    left.terminal.variables = { PATH: `${bin}:${GIT_PATH}:${process.env['PATH']}` };
    const { code, stderr } = await left.terminal.type('apply', 'r1', ...args);
    expect([code, stderr]).toEqual([0, expect.stringContaining('stage fix')]);
    expect(existsSync(canary)).toBe(false);
    const used = readFileSync(log, 'utf8').trim().split('\n');
    expect(used.length).toBeGreaterThan(4);
    for (const each of used)
      expect(each.startsWith(`${left.terminal.stateDir}/git/`) || each.startsWith('/nonexistent/')).toBe(true);
    // The program runs if git reads this configuration: from git 2.54 on also by `hook.<name>.command`, without a file.
    rmSync(join(app, '.git/hooks'), { recursive: true });
    left.git(app, 'config', '--unset-all', 'core.hooksPath');
    const [major, minor] = left.git(app, 'version').split(' ')[2]!.split('.').map(Number) as [number, number];
    try {
      left.git(app, 'update-ref', 'refs/heads/proof', 'HEAD');
    } catch {
      // The hook refuses the branch.
    }
    expect(existsSync(canary)).toBe(major > 2 || minor >= 54);
  },
);
