/** What `voidbox apply` leaves where it does not come to its end, or where somebody else is in the way. */
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
import { GIT_PATH, type LeftRun, openLeftRun } from '../test/rig/left-changes.ts';

const BIN = fileURLToPath(new URL('../bin/voidbox.js', import.meta.url));

let left: LeftRun;
beforeEach(async () => {
  left = await openLeftRun();
});
afterEach(() => left.close());

/** A `git` before the real one; in the script, `$real` is that one. */
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
    // Not committed: no commit could give it back.
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
    // What somebody else has made there stays.
    expect(readdirSync(join(left.app, 'new'))).toEqual(['mine']);
    rmSync(join(left.app, 'new'), { recursive: true });
    expect(status()).toBe(before);
    expect(readdirSync(join(left.app, '.git')).filter((name) => name.startsWith('voidbox'))).toEqual([]);
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
      // As a shell starts it on a terminal, whose Ctrl-C is for the whole group.
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
  test('of several at once, one applies it, and the others see it there', async () => {
    await leaveChange();
    const typed = await Promise.all([1, 2, 3].map(() => left.terminal.type('apply', 'r1', '--json')));
    expect(typed.map(({ code }) => code)).toEqual([0, 0, 0]);
    const outcomes = typed.map(({ stdout }) => (JSON.parse(stdout) as { readonly outcome: string }).outcome);
    expect(outcomes.sort()).toEqual(['already', 'already', 'applied']);
    expect(status()).toBe(' M a.txt\n?? b.txt\n');
  });

  test('a branch or a lock in the way is said, and is no bug', async () => {
    await leaveChange();
    left.git(left.app, 'branch', 'voidbox');
    const taken = await left.terminal.type('apply', 'r1', '--branch');
    expect([taken.code, taken.stderr]).toEqual([
      2,
      expect.stringMatching(/error: git cannot make the branch voidbox\/r1\/fix: .*'refs\/heads\/voidbox' exists/),
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
