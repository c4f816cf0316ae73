/** Changes of workspaces that workers left, as the command line applies them; no server runs. */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openStores } from '../../store/open-stores.ts';
import { startTestApi } from '../rig/servers/test-api.ts';
import { type LeftRun, openLeftRun } from '../rig/git/run-with-changes.ts';

let left: LeftRun;
let terminal: LeftRun['terminal'];
let app: string;
let canary: string;
let git: LeftRun['git'];
let commit: LeftRun['commit'];
let outputsOf: LeftRun['outputsOf'];
let leaveRun: LeftRun['leaveRun'];

beforeEach(async () => {
  left = await openLeftRun();
  ({ terminal, app, git, commit, outputsOf, leaveRun } = left);
  canary = join(terminal.dir, 'canary');
});

afterEach(() => left.close());

const change = (folder: string): void => {
  writeFileSync(join(folder, 'a.txt'), 'one\ntwo\nTHREE\n');
  writeFileSync(join(folder, 'blob'), Buffer.from([0, 255, 13, 10]));
  chmodSync(join(folder, 'run.sh'), 0o755);
  commit(folder);
};

describe('voidbox apply', () => {
  test('shows what changed, changes files, and stages nothing; again it says that it is there', async () => {
    await leaveRun({ fix: await outputsOf(change) });
    const checked = await terminal.type('apply', 'r1', '--check');
    expect(checked).toEqual({
      code: 0,
      stdout: '',
      stderr:
        'stage fix: 3 files, 1 commit, for /DIR/app\n  M a.txt  +1 -1\n  A blob  binary\n  M run.sh  +0 -0  executable\n1 file is marked: programs run or read it without a question; the marks are never complete, so read every change\nit applies to /DIR/app\n',
    });
    expect(git(app, 'status', '--porcelain')).toBe('');
    const applied = await terminal.type('apply', 'r1');
    expect([applied.code, applied.stderr]).toEqual([
      0,
      expect.stringContaining('applied to /DIR/app; nothing is staged or committed\n'),
    ]);
    expect(git(app, 'status', '--porcelain')).toBe(' M a.txt\n M run.sh\n?? blob\n');
    expect(readFileSync(join(app, 'blob'))).toEqual(Buffer.from([0, 255, 13, 10]));
    const again = await terminal.type('apply', 'r1');
    expect([again.code, again.stderr]).toEqual([0, expect.stringContaining('/DIR/app already has it\n')]);
  });

  test('a list of conflicts that git cuts off says that there are more', async () => {
    const names = Array.from({ length: 200 }, (_, index) => `new-${index}-${'x'.repeat(60)}`);
    const fill = (folder: string, text: string): void => {
      for (const name of names) writeFileSync(join(folder, name), text);
    };
    await leaveRun({
      fix: await outputsOf((folder) => {
        fill(folder, 'by the stage');
        commit(folder);
      }),
    });
    fill(app, 'mine');
    const { code, stderr } = await terminal.type('apply', 'r1');
    expect(code).toBe(1);
    const listed = stderr.split('\n').filter((line) => line.endsWith(': already exists in working directory'));
    expect(listed.length).toBeGreaterThan(50);
    expect(listed.length).toBeLessThan(names.length);
    for (const line of listed) expect(names).toContain(line.trim().split(':')[0]);
    expect(stderr).toContain('and more: git says over 8 KiB of what is in the way, and the rest is not listed');
  });

  test('quotes names of files that conflict, so that no name forges a line of git', async () => {
    const names = [
      'n\nerror: b.txt: patch does not apply',
      'e\u0001\u001b[31m\nerror: b.txt: patch does not apply',
      'c: already exists, d',
    ];
    await leaveRun({
      fix: await outputsOf((folder) => {
        for (const name of names) writeFileSync(join(folder, name), 'by the stage');
        commit(folder);
      }),
    });
    for (const name of names) writeFileSync(join(app, name), 'mine');
    const { code, stderr } = await terminal.type('apply', 'r1');
    expect(code).toBe(1);
    const why = 'already exists in working directory';
    expect(stderr).toContain(`  "n\\nerror: b.txt: patch does not apply": ${why}\n`);
    expect(stderr).toContain(`  "c: already exists, d": ${why}\n`);
    expect(stderr).toContain(`  "e\\u0001\\u001b[31m\\nerror: b.txt: patch does not apply": ${why}\n`);
    expect(stderr).not.toContain('\n  b.txt');
    const json = JSON.parse((await terminal.type('apply', 'r1', '--json')).stdout) as {
      readonly conflicts: readonly { readonly path: string }[];
    };
    expect(json.conflicts.map(({ path }) => path).toSorted()).toEqual(names.toSorted());
  });

  test('says what conflicts, file by file, and changes nothing', async () => {
    writeFileSync(join(app, 'bytes'), Buffer.from([0, 1]));
    commit(app);
    git(left.guest, 'pull', '-q');
    const changeBytes = (folder: string): void => {
      writeFileSync(join(folder, 'bytes'), Buffer.from([0, 2]));
      change(folder);
    };
    await leaveRun({ fix: await outputsOf(changeBytes) });
    writeFileSync(join(app, 'bytes'), Buffer.from([0, 3]));
    writeFileSync(join(app, 'a.txt'), 'one\ntwo\n3\n');
    writeFileSync(join(app, 'blob'), 'mine');
    const { code, stderr } = await terminal.type('apply', 'r1');
    expect(code).toBe(1);
    expect(stderr).toContain('a.txt: patch does not apply');
    expect(stderr).toContain('blob: already exists in working directory');
    expect(stderr).toContain('and nothing was changed');
    expect(stderr).toContain('--branch');
    expect([readFileSync(join(app, 'a.txt'), 'utf8'), readFileSync(join(app, 'blob'), 'utf8')]).toEqual([
      'one\ntwo\n3\n',
      'mine',
    ]);
    const json = JSON.parse((await terminal.type('apply', 'r1', '--check', '--json')).stdout) as {
      readonly outcome: string;
      readonly conflicts: readonly { readonly path: string }[];
      readonly files: readonly { readonly path: string; readonly notable: readonly string[] }[];
    };
    expect(json.outcome).toBe('conflicts');
    expect(json.conflicts.map(({ path }) => path).toSorted()).toEqual(['a.txt', 'blob', 'bytes']);
    expect(json.files.map(({ path, notable }) => [path, notable])).toEqual([
      ['a.txt', []],
      ['blob', []],
      ['bytes', []],
      ['run.sh', ['executable']],
    ]);
  });

  test('makes a branch and touches no file, once; another branch of the name stays', async () => {
    await leaveRun({ fix: await outputsOf(change) });
    const made = await terminal.type('apply', 'r1', '--branch');
    expect([made.code, made.stderr]).toEqual([
      0,
      expect.stringMatching(/branch voidbox\/r1\/fix in \/DIR\/app: git log [0-9a-f]{12}\.\.voidbox\/r1\/fix\n$/),
    ]);
    expect(git(app, 'log', '--format=%s', 'voidbox/r1/fix')).toBe('by the guest\nfirst\n');
    expect(git(app, 'status', '--porcelain')).toBe('');
    expect(git(app, 'fsck', '--strict')).toBe('');
    expect((await terminal.type('apply', 'r1', '--branch')).stderr).toContain('already exists');
    git(app, 'branch', '-f', 'voidbox/r1/fix', 'main');
    const refused = await terminal.type('apply', 'r1', '--branch');
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('at another commit')]);
    expect(git(app, 'rev-parse', 'voidbox/r1/fix')).toBe(git(app, 'rev-parse', 'main'));
  });

  test('names the branch that blocks the name of the new one, and a command with another name', async () => {
    await leaveRun({ fix: await outputsOf(change) });
    git(app, 'branch', 'voidbox');
    const refused = await terminal.type('apply', 'r1', '--branch', '--stage', 'fix');
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining(
        'error: git cannot make the branch voidbox/r1/fix, because the repository has the branch voidbox\n' +
          '  Choose another name: voidbox apply --branch=voidbox-r1-fix --stage fix r1\n',
      ),
    ]);
    const made = await terminal.type('apply', '--branch=voidbox-r1-fix', '--stage', 'fix', 'r1');
    expect(made.code, made.stderr).toBe(0);
    expect(git(app, 'log', '--format=%s', 'voidbox-r1-fix')).toBe('by the guest\nfirst\n');

    git(app, 'branch', '-m', 'voidbox', 'topic/a');
    const above = await terminal.type('apply', 'r1', '--branch=topic');
    expect([above.code, above.stderr]).toEqual([
      2,
      expect.stringContaining('git cannot make the branch topic, because the repository has the branch topic/a'),
    ]);
    expect(above.stderr).toContain('voidbox apply --branch=topic-1 r1');
  });

  test.each(['a..b', '-x', 'HEAD', 'x.lock', '@{-1}', '../../config'])(
    'makes no branch with the name %s, which git refuses',
    async (name) => {
      await leaveRun({ fix: await outputsOf(change) });
      const { code, stderr } = await terminal.type('apply', 'r1', `--branch=${name}`);
      expect([code, stderr]).toEqual([
        2,
        expect.stringContaining(`--branch: git does not allow the branch name "${name}"`),
      ]);
      expect(git(app, 'branch', '--format=%(refname:short)')).toBe('main\n');
    },
  );

  test('prints the patch and nothing else', async () => {
    const outputs = await outputsOf(change);
    await leaveRun({ fix: outputs });
    const { code, stdout, stderr } = await terminal.type('apply', 'r1', '--patch');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^diff --git a\/a\.txt b\/a\.txt\n/);
  });

  test('takes the changes that no other stage uses, or the changes of the named stage', async () => {
    const outputs = await outputsOf(change);
    await leaveRun({ fix: outputs, test: outputs, plain: {} });
    expect((await terminal.type('apply', 'r1', '--check')).stderr).toMatch(/^stage test: /);
    expect((await terminal.type('apply', 'r1', '--check', '--stage', 'fix')).stderr).toMatch(/^stage fix: /);
    const plain = await terminal.type('apply', 'r1', '--stage', 'plain');
    expect([plain.code, plain.stderr]).toEqual([2, expect.stringContaining('it has no workspace')]);
    const none = await terminal.type('apply', 'r1', '--stage', 'none');
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('no such stage')]);
  });

  test('takes the changes of an agent that did not succeed if that is what a person asks for', async () => {
    const outputs = await outputsOf(change);
    await leaveRun({ fix: left.partialOf(outputs) });
    const plain = await terminal.type('apply', 'r1');
    expect([plain.code, plain.stderr]).toEqual([2, expect.stringContaining('left partial changes (fix)')]);
    const named = await terminal.type('apply', 'r1', '--stage', 'fix');
    expect([named.code, named.stderr]).toEqual([2, expect.stringContaining('apply --partial --stage fix r1')]);
    const checked = await terminal.type('apply', 'r1', '--partial', '--check');
    expect([checked.code, checked.stderr]).toEqual([
      0,
      expect.stringMatching(/^stage fix \(partial: it did not succeed\): 3 files, 1 commit, .*\n {2}M a\.txt/),
    ]);
    const branch = await terminal.type('apply', 'r1', '--partial', '--branch');
    expect([branch.code, branch.stderr]).toEqual([0, expect.stringContaining('branch voidbox/r1/fix.partial in')]);
    const json = JSON.parse((await terminal.type('apply', 'r1', '--partial', '--json')).stdout) as object;
    expect(json).toMatchObject({ stage: 'fix', partial: true, outcome: 'applied' });
    expect(readFileSync(join(app, 'a.txt'), 'utf8')).toBe('one\ntwo\nTHREE\n');
  });

  test('says that it leaves out partial changes, and takes the results of the other stages', async () => {
    const outputs = await outputsOf(change);
    await leaveRun({ fix: outputs, test: left.partialOf(outputs) });
    const { code, stderr } = await terminal.type('apply', 'r1', '--check');
    expect([code, stderr]).toEqual([
      0,
      expect.stringMatching(
        /^changes of agents that did not succeed are not included \(test\): voidbox apply --partial r1\nstage fix: /,
      ),
    ]);
    expect((await terminal.type('apply', 'r1', '--check', '--partial')).stderr).toMatch(/^stage test \(partial/);
    const none = await terminal.type('apply', 'r1', '--partial', '--stage', 'fix');
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('its changes are not partial')]);
  });

  test('counts new products of builds by their folders, and not files of folders that the repository had', async () => {
    const write = (folder: string, ...paths: readonly string[]): void => {
      for (const path of paths) {
        mkdirSync(join(folder, dirname(path)), { recursive: true });
        writeFileSync(join(folder, path), path);
      }
    };
    write(app, 'build/tool.sh', 'lib/dist/kept.js');
    commit(app);
    git(left.guest, 'pull', '-q');
    const made = [
      'node_modules/x/package.json',
      'node_modules/y.js',
      'lib/__pycache__/a.pyc',
      'dist/out.js',
      'lib/z.pyc',
    ];
    const written = ['build/new.sh', 'lib/dist/new.js', 'a.txt', 'distance/b'];
    await leaveRun({
      fix: await outputsOf((folder) => {
        write(folder, ...made, ...written);
        writeFileSync(join(folder, 'lib/dist/kept.js'), 'changed');
        commit(folder);
      }),
    });
    const { code, stderr } = await terminal.type('apply', 'r1', '--check');
    expect(code, stderr).toBe(0);
    const lines = stderr.split('\n').map((line) => line.trim().replaceAll(/ {2,}/g, '  '));
    expect(lines).toContain('A node_modules/  2 files  product of a build, runs on install or build');
    expect(lines).toContain('A lib/__pycache__/  1 file  product of a build');
    expect(lines).toContain('A dist/  1 file  product of a build');
    expect(lines).toContain('A lib/z.pyc  product of a build');
    for (const path of written.slice(0, 2)) expect(stderr).toContain(`A ${path}  +1 -0\n`);
    expect(stderr).toContain('M lib/dist/kept.js');
    expect(stderr).not.toContain('node_modules/y.js');
    expect(stderr).toContain('changes: none');
    const { products } = JSON.parse((await terminal.type('apply', 'r1', '--check', '--json')).stdout) as {
      readonly products: readonly { readonly path: string; readonly files: number }[];
    };
    expect(products.map(({ path, files }) => [path, files]).toSorted()).toEqual([
      ['dist/', 1],
      ['lib/__pycache__/', 1],
      ['lib/z.pyc', 1],
      ['node_modules/', 2],
    ]);
  });

  test('counts lines of files whose names contain tabs, and of the files after them', async () => {
    const names = ['\tfirst.txt', 'a\tb.txt', '-rf', 'plain.txt'];
    await leaveRun({
      fix: await outputsOf((folder) => {
        for (const name of names) writeFileSync(join(folder, name), 'one\ntwo\n');
        commit(folder);
      }),
    });
    const { stdout } = await terminal.type('apply', 'r1', '--check', '--json');
    const { files } = JSON.parse(stdout) as { readonly files: readonly { path: string; added: number | null }[] };
    expect(files.map(({ path, added }) => [path, added]).toSorted()).toEqual(names.map((name) => [name, 2]).toSorted());
  });

  test('takes the changes of one item, the last of its stages', async () => {
    const outputs = await outputsOf(change);
    const [work, check] = [0, 1]
      .map((item) => `fixes.work/fixes~${item}/1`)
      .concat('fixes.check/fixes~1/1')
      .slice(1);
    await leaveRun({ 'fixes.work/fixes~0/1': outputs, [work!]: outputs, [check!]: outputs });
    const several = await terminal.type('apply', 'r1');
    expect([several.code, several.stderr]).toEqual([
      2,
      expect.stringContaining("--stage 'fixes[0].work', --stage 'fixes[1].check'"),
    ]);
    const one = await terminal.type('apply', 'r1', '--stage', 'fixes[0].work');
    expect([one.code, one.stderr]).toEqual([0, expect.stringContaining('applied to /DIR/app')]);
    const branch = await terminal.type('apply', 'r1', '--stage', 'fixes[1].check', '--branch');
    expect([branch.code, branch.stderr]).toEqual([0, expect.stringContaining('branch voidbox/r1/fixes-1-.check in')]);
    const bare = await terminal.type('apply', 'r1', '--stage', 'fixes.work');
    expect([bare.code, bare.stderr]).toEqual([2, expect.stringContaining('runs for each item of fixes: name one')]);
    const none = await terminal.type('apply', 'r1', '--stage', 'fixes[7].work');
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('there is no such item')]);
  });

  test('two stages have changes that no other stage uses: one has to be named', async () => {
    const outputs = await outputsOf(change);
    const none = await outputsOf((folder) => git(folder, 'reset', '-q', '--hard', 'origin/HEAD'));
    await leaveRun({ fix: none, test: outputs, other: outputs });
    const { code, stderr } = await terminal.type('apply', 'r1');
    expect([code, stderr]).toEqual([2, expect.stringContaining('--stage test, --stage other')]);
  });

  test('changes the repository of `--repository`; refuses a folder without a repository, and for a branch a repository without the commit', async () => {
    await leaveRun({ fix: await outputsOf(change) });
    const elsewhere = join(terminal.dir, 'elsewhere');
    mkdirSync(elsewhere);
    const none = await terminal.type('apply', 'r1', '--repository', elsewhere);
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('/DIR/elsewhere is no git repository')]);
    git(elsewhere, 'init', '-q');
    writeFileSync(join(elsewhere, 'a.txt'), 'one\ntwo\nthree\n');
    writeFileSync(join(elsewhere, 'run.sh'), '#!/bin/sh\n');
    const foreign = await terminal.type('apply', 'r1', '--repository', elsewhere, '--branch');
    expect([foreign.code, foreign.stderr]).toEqual([2, expect.stringContaining('does not have the commit')]);
    // A patch needs only the files.
    expect((await terminal.type('apply', 'r1', '-r', elsewhere)).code).toBe(0);
    expect(readFileSync(join(elsewhere, 'a.txt'), 'utf8')).toBe('one\ntwo\nTHREE\n');
    expect(readFileSync(join(app, 'a.txt'), 'utf8')).toBe('one\ntwo\nthree\n');
    const both = await terminal.type('apply', 'r1', '--patch', '--check');
    expect([both.code, both.stderr]).toEqual([2, expect.stringContaining('cannot be combined')]);
  });

  test('brings changes of a run on another machine to the named repository, and to no folder that the run names', async () => {
    await leaveRun({ fix: await outputsOf(change) });
    const stores = await openStores({ stateDir: terminal.stateDir });
    const api = await startTestApi({ stateDir: terminal.stateDir, stores });
    try {
      const patch = await terminal.type('apply', 'r1', '--patch');
      const elsewhere = join(terminal.dir, 'elsewhere');
      terminal.variables = { VOIDBOX_SERVER: `unix:${api.socket}`, VOIDBOX_STATE_DIR: elsewhere };
      expect(await terminal.type('apply', 'r1', '--patch')).toEqual(patch);
      const unnamed = await terminal.type('apply', 'r1');
      expect([unnamed.code, unnamed.stderr]).toEqual([2, expect.stringContaining('/DIR is no git repository')]);
      expect(git(app, 'status', '--porcelain')).toBe('');
      const applied = await terminal.type('apply', 'r1', '--repository', 'app', '--json');
      expect(JSON.parse(applied.stdout)).toMatchObject({ runId: 'r1', outcome: 'applied', repository: '/DIR/app' });
      expect(git(app, 'status', '--porcelain')).toBe(' M a.txt\n M run.sh\n?? blob\n');
    } finally {
      await api.close();
      await stores.close();
    }
  });

  test("runs no program that the author's repository or the guest's attributes name, and moves no cursor", async () => {
    const program = join(terminal.dir, 'program');
    writeFileSync(program, `#!/bin/sh\ntouch ${canary}\ncat\n`, { mode: 0o755 });
    await leaveRun({
      fix: await outputsOf((folder) => {
        writeFileSync(join(folder, '.gitattributes'), '* filter=x diff=x merge=x\n');
        writeFileSync(join(folder, 'a.txt'), 'one\ntwo\nTHREE\n');
        writeFileSync(join(folder, 'red\u001b[31m'), 'x');
        mkdirSync(join(folder, '.github/workflows'), { recursive: true });
        writeFileSync(join(folder, '.github/workflows/x.yml'), 'x');
        commit(folder);
      }),
    });
    for (const key of [
      'core.fsmonitor',
      'filter.x.smudge',
      'filter.x.clean',
      'diff.x.textconv',
      'diff.external',
      'merge.x.driver',
    ])
      git(app, 'config', key, program);
    for (const hook of [
      'reference-transaction',
      'post-checkout',
      'post-index-change',
      'pre-auto-gc',
      'post-applypatch',
    ])
      writeFileSync(join(app, '.git/hooks', hook), `#!/bin/sh\ntouch ${canary}\n`, { mode: 0o755 });
    for (const args of [['--check'], ['--branch'], []]) {
      const { code, stderr } = await terminal.type('apply', 'r1', ...args);
      expect([code, args]).toEqual([0, args]);
      expect(stderr).not.toContain('\u001b');
      expect(stderr).toContain('attributes of git');
      expect(stderr).toContain('runs in CI');
    }
    expect(readFileSync(join(app, 'a.txt'), 'utf8')).toBe('one\ntwo\nTHREE\n');
    expect(existsSync(canary)).toBe(false);
    // Without Voidbox, git runs the hook.
    git(app, 'branch', 'proof');
    expect(existsSync(canary)).toBe(true);
  });

  test('writes through no link of the working tree, and refuses a bundle that is damaged', async () => {
    const outputs = await outputsOf((folder) => {
      mkdirSync(join(folder, 'out'));
      writeFileSync(join(folder, 'out/file'), 'x');
      commit(folder);
    });
    await leaveRun({ fix: outputs });
    const outside = join(terminal.dir, 'outside');
    mkdirSync(outside);
    execFileSync('ln', ['-s', outside, join(app, 'out')]);
    const { code, stderr } = await terminal.type('apply', 'r1');
    expect([code, stderr]).toEqual([1, expect.stringContaining('beyond a symbolic link')]);
    expect(existsSync(join(outside, 'file'))).toBe(false);
    rmSync(join(app, 'out'));
    const { sha256 } = outputs['changes.bundle']!;
    const path = join(terminal.stateDir, 'artifacts', sha256.slice(0, 2), sha256);
    const bytes = readFileSync(path);
    bytes[bytes.length - 30]! ^= 0xff;
    rmSync(path);
    writeFileSync(path, bytes);
    const damaged = await terminal.type('apply', 'r1');
    expect(damaged.code).not.toBe(0);
    expect(existsSync(join(app, 'out'))).toBe(false);
  });
});
