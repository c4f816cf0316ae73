/** The files that `voidbox apply` leaves if it is killed or fails, or if another program is in the way. */
import { spawn } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { GIT_PATH } from '../rig/git/git-path.ts';
import { type LeftRun, openLeftRun } from '../rig/git/run-with-changes.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));

let left: LeftRun;
beforeEach(async () => {
  left = await openLeftRun();
});
afterEach(() => left.close());

/** A `git` in front of the real one; the script calls the real one as `real`. */
function gitThat(script: string): Readonly<Record<string, string>> {
  const bin = join(left.terminal.dir, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'git'), `#!/bin/sh\nreal() { PATH=${GIT_PATH} git "$@"; }\n${script}\nreal "$@"\n`, {
    mode: 0o755,
  });
  return { PATH: `${bin}:${process.env['PATH']}` };
}

const isWriting = 'case " $* " in *" --check "*) ;; *" apply "*)';

async function leaveChange(): Promise<void> {
  await left.leaveRun({
    fix: await left.outputsOf((folder) => {
      writeFileSync(join(folder, 'a.txt'), 'x\none\ntwo\nthree\n');
      writeFileSync(join(folder, 'b.txt'), 'new\n');
      left.commit(folder);
    }),
  });
}

const status = (): string => left.git(left.app, 'status', '--porcelain');

/** The folder of the state folder that has files of the working tree in their earlier versions. */
const recordsOf = (): string => {
  const applies = join(left.terminal.stateDir, 'applies');
  const names = existsSync(applies) ? readdirSync(applies) : [];
  return join(applies, names[0] ?? 'none');
};

const leftOver = (): readonly string[] =>
  existsSync(recordsOf()) ? readdirSync(recordsOf()).filter((name) => /^voidbox-(?:apply|before)-/.test(name)) : [];

const inGitFolder = (): readonly string[] =>
  readdirSync(join(left.app, '.git')).filter((name) => name.startsWith('voidbox'));

/** Kills `apply` while its git writes. The git process continues until the returned function is called. */
async function killWhileWriting(script: string, exitCode = 1, ...more: readonly string[]): Promise<() => void> {
  const [writing, goOn] = ['writing', 'go-on'].map((name) => join(left.terminal.dir, name));
  const { PATH } = gitThat(
    `${isWriting} ${script}\n touch ${writing}; while [ ! -e ${goOn} ] && [ -e ${writing} ]; do sleep 0.1; done; exit ${exitCode};; esac`,
  );
  const child = spawn(process.execPath, [BIN, 'apply', 'r1', ...more], {
    cwd: left.terminal.dir,
    env: { ...process.env, PATH, VOIDBOX_STATE_DIR: left.terminal.stateDir },
    stdio: 'ignore',
  });
  const ended = new Promise<unknown>((resolve) => child.once('exit', resolve));
  await expect.poll(() => existsSync(writing!), { timeout: 20_000 }).toBe(true);
  child.kill('SIGKILL');
  await ended;
  return () => writeFileSync(goOn!, '');
}

/** Applies while the git of a killed `apply` works. That git ends after the new `apply` has printed that it waits. */
async function applyOnceItWaits(
  endGit: () => void,
): Promise<{ readonly code: number | null; readonly stderr: string }> {
  const { dir, stateDir } = left.terminal;
  const env = { ...process.env, VOIDBOX_STATE_DIR: stateDir };
  const child = spawn(process.execPath, [BIN, 'apply', 'r1'], { cwd: dir, env, stdio: ['ignore', 'ignore', 'pipe'] });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
    if (stderr.includes('waiting for another')) endGit();
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, stderr: stderr.replaceAll(dir, '/DIR') };
}

async function leaveChanges(): Promise<void> {
  for (const name of ['gone.txt', 'edited.txt']) writeFileSync(join(left.app, name), `${name}\n`);
  left.commit(left.app, 'more');
  left.git(left.guest, 'pull', '-q');
  await left.leaveRun({
    fix: await left.outputsOf((folder) => {
      writeFileSync(join(folder, 'a.txt'), 'x\none\ntwo\nthree\n');
      writeFileSync(join(folder, 'edited.txt'), 'edited.txt\nby the stage\n');
      rmSync(join(folder, 'gone.txt'));
      mkdirSync(join(folder, 'new'));
      writeFileSync(join(folder, 'new/b.txt'), 'new\n');
      left.commit(folder);
    }),
  });
  // Changed without a commit, so no commit could restore it.
  writeFileSync(join(left.app, 'a.txt'), 'one\ntwo\nthree\nmine\n');
}

const fileOf = (name: string): string => readFileSync(join(left.app, name), 'utf8');

describe('voidbox apply that was killed', () => {
  const PART = `real "$@" --include=a.txt --include=gone.txt --include=new/b.txt`;

  test('has written a part: the next one waits for its git, puts that back, and applies all of it', async () => {
    await leaveChanges();
    const goOn = await killWhileWriting(PART);
    expect([fileOf('a.txt'), existsSync(join(left.app, 'new/b.txt')), leftOver().length]).toEqual([
      'x\none\ntwo\nthree\nmine\n',
      true,
      1,
    ]);
    const checked = await left.terminal.type('apply', 'r1', '--check');
    expect(checked.stderr).toContain('another `voidbox apply` runs here, or was killed');
    const next = await applyOnceItWaits(goOn);
    expect(next.stderr).toContain('waiting for another `voidbox apply`\n');
    expect(next.stderr).toContain(
      'an earlier `voidbox apply` to /DIR/app was killed while it wrote: 3 files put back\n',
    );
    expect([next.code, next.stderr]).toEqual([0, expect.stringContaining('applied to /DIR/app')]);
    expect(fileOf('a.txt')).toBe('x\none\ntwo\nthree\nmine\n');
    expect(status()).toBe(' M a.txt\n M edited.txt\n D gone.txt\n?? new/\n');
    expect([leftOver(), inGitFolder()]).toEqual([[], []]);
    // Only the repository that each `apply` checks is left: the one of the killed `apply`.
    expect(readdirSync(join(left.terminal.stateDir, 'git'))).toHaveLength(1);
  });

  test('has removed a file and not written it again: it is as it was', async () => {
    await leaveChanges();
    (await killWhileWriting('rm a.txt edited.txt'))();
    // The next `apply` cannot write this file, so it applies nothing.
    mkdirSync(join(left.app, 'new'));
    writeFileSync(join(left.app, 'new/b.txt'), 'mine');
    const next = await left.terminal.type('apply', 'r1');
    expect(next.stderr).toContain('was killed while it wrote: 2 files put back\n');
    expect([next.code, next.stderr]).toEqual([1, expect.stringContaining('new/b.txt: already exists')]);
    expect([fileOf('a.txt'), fileOf('edited.txt')]).toEqual(['one\ntwo\nthree\nmine\n', 'edited.txt\n']);
  });

  test('git was killed too: files as the run left them are put back, and the message names the place of the earlier version of any other file', async () => {
    await leaveChanges();
    (await killWhileWriting(PART))();
    const [store] = leftOver();
    const ended = join(recordsOf(), store!, 'ended');
    await expect.poll(() => existsSync(ended)).toBe(true);
    rmSync(ended);
    // The killed git had written half of this file, which had changes of the author.
    writeFileSync(join(left.app, 'a.txt'), 'x\none');
    const next = await left.terminal.type('apply', 'r1');
    expect(next.stderr).toContain('was killed while it wrote: 2 files put back\n');
    expect(next.stderr).toContain(
      `  a.txt stays: it has changed since, or is incomplete; its earlier version is at ${recordsOf().replace(left.terminal.dir, '/DIR')}/${store!.replace('apply', 'before')}/a.txt\n`,
    );
    expect(readFileSync(join(recordsOf(), store!.replace('apply', 'before'), 'a.txt'), 'utf8')).toBe(
      'one\ntwo\nthree\nmine\n',
    );
    expect([fileOf('gone.txt'), existsSync(join(left.app, 'new'))]).toEqual(['gone.txt\n', false]);
  });

  test('has written all of it: nothing is put back', async () => {
    await leaveChanges();
    (await killWhileWriting('real "$@"', 0))();
    const next = await left.terminal.type('apply', 'r1');
    expect([next.code, next.stderr]).toEqual([0, expect.stringContaining('/DIR/app already has it')]);
    expect(next.stderr).toContain('an earlier `voidbox apply` to /DIR/app was killed after it had written all files\n');
    expect(status()).toBe(' M a.txt\n M edited.txt\n D gone.txt\n?? new/\n');
    expect(leftOver()).toEqual([]);
  });

  test('has written all of a merge with conflicts: the files as they were before stay for the user', async () => {
    await leaveChanges();
    writeFileSync(join(left.app, 'a.txt'), 'mine\none\ntwo\nthree\n');
    (await killWhileWriting('real "$@"', 0, '--3way'))();
    expect(fileOf('a.txt')).toContain('>>>>>>> voidbox/r1/fix');
    const next = await left.terminal.type('apply', 'r1');
    expect(next.stderr).toMatch(/was killed after it had written all files; files that were there before are in \S+\n/);
    const [kept] = leftOver();
    expect(leftOver()).toEqual([expect.stringMatching(/^voidbox-before-/)]);
    expect(readFileSync(join(recordsOf(), kept!, 'a.txt'), 'utf8')).toBe('mine\none\ntwo\nthree\n');
  });

  test('files that changed since then stay, and the message names the place of their earlier versions', async () => {
    await leaveChanges();
    const outside = join(left.terminal.dir, 'outside');
    mkdirSync(outside);
    (await killWhileWriting(`${PART} --include=edited.txt`.replace(' --include=a.txt', '')))();
    writeFileSync(join(left.app, 'edited.txt'), 'edited since\n');
    rmSync(join(left.app, 'new'), { recursive: true });
    writeFileSync(join(outside, 'b.txt'), 'new\n');
    symlinkSync(outside, join(left.app, 'new'));
    mkdirSync(join(left.app, 'gone.txt/mine'), { recursive: true });
    const next = await left.terminal.type('apply', 'r1');
    expect(next.code).toBe(1);
    expect(next.stderr).toContain('it does not apply to /DIR/app');
    const said = [
      ...next.stderr.matchAll(
        /^ {2}(\S+) stays: it has changed since, or is incomplete; its earlier version is at (.+)$/gm,
      ),
    ];
    expect(said.map(([, name]) => name).sort()).toEqual(['edited.txt', 'gone.txt']);
    for (const [, name, place] of said)
      expect(readFileSync(place!.replace('/DIR', left.terminal.dir), 'utf8')).toBe(`${name}\n`);
    expect(fileOf('edited.txt')).toBe('edited since\n');
    expect(readFileSync(join(outside, 'b.txt'), 'utf8'), 'behind a link').toBe('new\n');
    expect(fileOf('a.txt')).toBe('one\ntwo\nthree\nmine\n');
    expect((await left.terminal.type('apply', 'r1')).stderr, 'it is said once').not.toContain('stays');
  });

  test('a record that cannot be read is an error, and its files stay where they are', async () => {
    await leaveChanges();
    (await killWhileWriting(PART))();
    const [store] = leftOver();
    const record = join(recordsOf(), store!, 'record.json');
    const outside = Buffer.from('../outside').toString('base64');
    for (const text of ['', `{"sinceMs":0,"files":[{"name":"${outside}","becomes":null,"isThere":true}]}`]) {
      writeFileSync(record, text);
      const { code, stderr } = await left.terminal.type('apply', 'r1');
      expect([code, stderr]).toEqual([2, expect.stringContaining(`${store} was left by an apply`)]);
    }
    expect(leftOver()).toEqual([store]);
  });
});

describe('voidbox apply that cannot end', () => {
  test('puts back each file, what is not committed in it, and what it has made', async () => {
    writeFileSync(join(left.app, 'gone.txt'), 'gone\n');
    writeFileSync(join(left.app, 'place'), 'a file\n');
    symlinkSync('a.txt', join(left.app, 'link'));
    left.commit(left.app, 'more');
    left.git(left.guest, 'pull', '-q');
    await left.leaveRun({
      fix: await left.outputsOf((folder) => {
        writeFileSync(join(folder, 'a.txt'), 'x\none\ntwo\nthree\n');
        rmSync(join(folder, 'gone.txt'));
        rmSync(join(folder, 'place'));
        rmSync(join(folder, 'link'));
        symlinkSync('run.sh', join(folder, 'link'));
        for (const sub of ['place', 'new/deep']) mkdirSync(join(folder, sub), { recursive: true });
        writeFileSync(join(folder, 'place/b'), 'b');
        writeFileSync(join(folder, 'new/deep/c'), 'c');
        left.commit(folder);
      }),
    });
    // Changed without a commit, so no commit could restore it.
    writeFileSync(join(left.app, 'a.txt'), 'one\ntwo\nthree\nmine\n');
    const [before, ino] = [status(), lstatSync(join(left.app, 'a.txt')).ino];
    left.terminal.variables = gitThat(
      `${isWriting} real "$@"; rm -f place/b a.txt; echo mine > new/mine; echo "error: unable to write file 'a.txt' mode 100644: Input/output error" >&2; exit 1;; esac`,
    );
    const { code, stderr } = await left.terminal.type('apply', 'r1');
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining("git cannot write it to /DIR/app, which is as it was: unable to write file 'a.txt'"),
    ]);
    expect(readFileSync(join(left.app, 'a.txt'), 'utf8')).toBe('one\ntwo\nthree\nmine\n');
    expect(lstatSync(join(left.app, 'a.txt')).ino).toBe(ino);
    expect(readFileSync(join(left.app, 'place'), 'utf8')).toBe('a file\n');
    expect(readlinkSync(join(left.app, 'link'))).toBe('a.txt');
    // A file that another program has made there stays.
    expect(readdirSync(join(left.app, 'new'))).toEqual(['mine']);
    rmSync(join(left.app, 'new'), { recursive: true });
    expect(status()).toBe(before);
    expect(leftOver()).toEqual([]);
  });

  test('takes no part of a patch for all of it', async () => {
    await leaveChange();
    left.terminal.variables = gitThat(
      `case " $* " in *" diff-tree -p "*) if [ -e ../asked ]; then real "$@" | sed '/^diff .*b.txt/,$d'; exit 1; fi; touch ${join(left.terminal.dir, 'asked')};; esac`.replace(
        '../asked',
        join(left.terminal.dir, 'asked'),
      ),
    );
    const { code } = await left.terminal.type('apply', 'r1');
    expect(existsSync(join(left.terminal.dir, 'asked'))).toBe(true);
    expect(status()).toBe(code === 0 ? ' M a.txt\n?? b.txt\n' : '');
  });

  test('ends what it has begun when Ctrl-C is typed', async () => {
    await leaveChange();
    const writing = join(left.terminal.dir, 'writing');
    const { PATH } = gitThat(`${isWriting} touch ${writing}; sleep 1;; esac`);
    const child = spawn(process.execPath, [BIN, 'apply', 'r1'], {
      cwd: left.terminal.dir,
      env: { ...process.env, PATH, VOIDBOX_STATE_DIR: left.terminal.stateDir },
      // A shell starts it this way on a terminal, where Ctrl-C is for the whole group.
      detached: true,
      stdio: 'ignore',
    });
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    await expect.poll(() => existsSync(writing)).toBe(true);
    process.kill(-child.pid!, 'SIGINT');
    expect(await ended).toBe(0);
    expect(status()).toBe(' M a.txt\n?? b.txt\n');
  });
});

describe('voidbox apply with others', () => {
  test('one of several commands applies the changes, and the others find them applied', async () => {
    await leaveChange();
    const typed = await Promise.all([1, 2, 3].map(() => left.terminal.type('apply', 'r1', '--json')));
    expect(typed.map(({ code }) => code)).toEqual([0, 0, 0]);
    const outcomes = typed.map(({ stdout }) => (JSON.parse(stdout) as { readonly outcome: string }).outcome);
    expect(outcomes.sort()).toEqual(['already', 'already', 'applied']);
    expect(status()).toBe(' M a.txt\n?? b.txt\n');
  });

  test('a branch or a lock in the way is reported by its name, and not as a bug', async () => {
    await leaveChange();
    left.git(left.app, 'branch', 'voidbox');
    const taken = await left.terminal.type('apply', 'r1', '--branch');
    expect([taken.code, taken.stderr]).toEqual([
      2,
      expect.stringMatching(
        /error: git cannot make the branch voidbox\/r1\/fix, because the repository has the branch voidbox\n/,
      ),
    ]);
    left.git(left.app, 'branch', '-m', 'voidbox', 'mine');
    mkdirSync(join(left.app, '.git/refs/heads/voidbox/r1'), { recursive: true });
    writeFileSync(join(left.app, '.git/refs/heads/voidbox/r1/fix.lock'), '');
    const locked = await left.terminal.type('apply', 'r1', '--branch');
    expect([locked.code, locked.stderr]).toEqual([
      2,
      expect.stringMatching(/git cannot make .*fix\.lock.*File exists/),
    ]);
    expect(taken.stderr + locked.stderr).not.toContain('bug');
  });

  test.each(['数'.repeat(150), `${'a'.repeat(199)}.b`])('a run of a long id has a branch: %s', async (runId) => {
    await left.leaveRun({ fix: await left.outputsOf(() => undefined), plain: {} }, 'r0');
    await left.leaveRun(
      {
        fix: await left.outputsOf((folder) => {
          writeFileSync(join(folder, 'a.txt'), 'x\n');
          left.commit(folder);
        }),
      },
      runId,
    );
    const { code, stderr } = await left.terminal.type('apply', runId, '--branch');
    expect([code, stderr]).toEqual([0, expect.stringContaining('git log')]);
    expect(left.git(left.app, 'fsck')).toBe('');
    expect(left.git(left.app, 'log', '--format=%s', '--branches=voidbox/*')).toContain('by the guest');
  });
});
