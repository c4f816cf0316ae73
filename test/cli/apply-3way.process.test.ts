/** `voidbox apply --3way`: a merge with the current working tree, with conflict markers. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { GIT_PATH } from '../rig/git/git-path.ts';
import { plantPrograms } from '../rig/git/hostile-repository.ts';
import { type LeftRun, openLeftRun } from '../rig/git/run-with-changes.ts';

let left: LeftRun;
beforeEach(async () => {
  left = await openLeftRun();
  writeFileSync(join(left.app, 'both.txt'), 'one\ntwo\nthree\n');
  writeFileSync(join(left.app, 'gone.txt'), 'gone\n');
  left.commit(left.app, 'more');
  left.git(left.guest, 'pull', '-q');
  await left.leaveRun({
    fix: await left.outputsOf((folder) => {
      writeFileSync(join(folder, 'a.txt'), 'one\ntwo\nTHREE\n');
      writeFileSync(join(folder, 'both.txt'), 'one\nby the stage\nthree\n');
      writeFileSync(join(folder, 'gone.txt'), 'changed\n');
      mkdirSync(join(folder, 'sub'));
      writeFileSync(join(folder, 'sub/new.txt'), 'by the stage\n');
      left.commit(folder);
    }),
  });
});
afterEach(() => left.close());

const read = (name: string): string => readFileSync(join(left.app, name), 'utf8');
const write = (name: string, text: string): void => writeFileSync(join(left.app, name), text);
const status = (): string => left.git(left.app, 'status', '--porcelain');

/** Conflicts in `both.txt` and `gone.txt`; `a.txt` has changes on both sides that git merges. */
function changeBothSides(): void {
  write('a.txt', 'ONE\ntwo\nthree\n');
  write('both.txt', 'one\nmine\nthree\n');
  rmSync(join(left.app, 'gone.txt'));
}

describe('voidbox apply --3way', () => {
  test('writes all files, leaves markers in those that conflict, names them and keeps what was there', async () => {
    changeBothSides();
    const { code, stderr } = await left.terminal.type('apply', 'r1', '--3way');
    expect(code).toBe(1);
    expect(stderr).toContain('merged into /DIR/app, with conflicts in 2 files; nothing is staged or committed:\n');
    expect(stderr).toContain('  both.txt: CONFLICT (content): Merge conflict in both.txt\n');
    expect(stderr).toMatch(/ {2}gone\.txt: CONFLICT \(modify\/delete\): gone\.txt deleted in yours/);
    expect(stderr).not.toContain('  a.txt: ');
    expect(read('both.txt')).toBe('one\n<<<<<<< yours\nmine\n=======\nby the stage\n>>>>>>> voidbox/r1/fix\nthree\n');
    expect([read('a.txt'), read('gone.txt'), read('sub/new.txt')]).toEqual([
      'ONE\ntwo\nTHREE\n',
      'changed\n',
      'by the stage\n',
    ]);
    expect(status()).toBe(' M a.txt\n M both.txt\n M gone.txt\n?? sub/\n');
    const place = /Files that were there before are in (\S+); to put them back: cp -a \1\/\. \/DIR\/app\/\n/.exec(
      stderr,
    )?.[1];
    const before = place!.replace('/DIR', left.terminal.dir);
    expect(readFileSync(join(before, 'both.txt'), 'utf8')).toBe('one\nmine\nthree\n');
    expect(readFileSync(join(before, 'a.txt'), 'utf8')).toBe('ONE\ntwo\nthree\n');
    expect(existsSync(join(before, 'gone.txt'))).toBe(false);
  });

  test('reads files by attributes of the working tree that are newer than the start of the stage', async () => {
    write('.gitattributes', '*.txt text eol=crlf\n');
    left.commit(left.app, 'attributes');
    for (const name of ['a.txt', 'both.txt', 'gone.txt']) rmSync(join(left.app, name));
    left.git(left.app, 'checkout', '.');
    expect([read('a.txt'), status()]).toEqual(['one\r\ntwo\r\nthree\r\n', '']);
    write('both.txt', 'one\r\nmine\r\nthree\r\n');
    const { code, stderr } = await left.terminal.type('apply', 'r1', '--3way');
    expect(code).toBe(1);
    expect(stderr).toContain('with conflicts in 1 file;');
    expect(read('a.txt')).toBe('one\r\ntwo\r\nTHREE\r\n');
    const lines = ['one', '<<<<<<< yours', 'mine', '=======', 'by the stage', '>>>>>>> voidbox/r1/fix', 'three', ''];
    expect(read('both.txt')).toBe(lines.join('\r\n'));
    expect(read('sub/new.txt')).toBe('by the stage\r\n');
    expect(status()).toBe(' M a.txt\n M both.txt\n M gone.txt\n?? sub/\n');
  });

  test('says as JSON which files conflict, and where the files are as they were', async () => {
    changeBothSides();
    const { code, stdout } = await left.terminal.type('apply', 'r1', '--3way', '--json');
    const said = JSON.parse(stdout) as {
      readonly outcome: string;
      readonly before: string;
      readonly conflicts: readonly { readonly path: string }[];
    };
    expect([code, said.outcome, said.conflicts.map(({ path }) => path)]).toEqual([
      1,
      'conflict-markers',
      ['both.txt', 'gone.txt'],
    ]);
    expect(said.before).toMatch(/^\/DIR\/state\/applies\/[0-9a-f]{32}\/voidbox-before-/);
  });

  test('puts no markers around markers of an earlier merge', async () => {
    changeBothSides();
    await left.terminal.type('apply', 'r1', '--3way');
    const merged = read('both.txt');
    for (const more of [[], ['--check']]) {
      const again = await left.terminal.type('apply', 'r1', '--3way', ...more);
      expect([again.code, again.stderr]).toEqual([
        2,
        expect.stringContaining('both.txt still has conflict markers of an earlier `voidbox apply --3way`'),
      ]);
    }
    expect(read('both.txt')).toBe(merged);
    write('both.txt', 'one\nmine\nthree\n');
    expect((await left.terminal.type('apply', 'r1', '--3way')).stderr).toContain('with conflicts in 1 file');
  });

  test('quotes the folder in the command that puts files back', async () => {
    const folder = join(left.terminal.dir, "it's mine; ls");
    left.git(left.terminal.dir, 'clone', '-q', left.app, folder);
    writeFileSync(join(folder, 'both.txt'), 'one\nmine\nthree\n');
    const { stderr } = await left.terminal.type('apply', 'r1', '--3way', '--repository', folder);
    const typed = /to put them back: (cp -a .*)\n/.exec(stderr)![1]!.replaceAll('/DIR', left.terminal.dir);
    execFileSync('sh', ['-c', typed]);
    expect(readFileSync(join(folder, 'both.txt'), 'utf8')).toBe('one\nmine\nthree\n');
  });

  test('merges without a conflict what does not apply as a patch, and succeeds', async () => {
    write('a.txt', 'ONE\ntwo\nthree\n');
    expect((await left.terminal.type('apply', 'r1')).stderr).toContain('voidbox apply --3way r1');
    expect(status()).toBe(' M a.txt\n');
    const { code, stderr } = await left.terminal.type('apply', 'r1', '--3way');
    expect([code, stderr]).toEqual([0, expect.stringContaining('applied to /DIR/app; nothing is staged')]);
    expect([read('a.txt'), read('both.txt')]).toEqual(['ONE\ntwo\nTHREE\n', 'one\nby the stage\nthree\n']);
  });

  test('prints commands that name the same stage and repository', async () => {
    const changes = await left.outputsOf((folder) => {
      writeFileSync(join(folder, 'both.txt'), 'one\nby another\nthree\n');
      left.commit(folder);
    });
    await left.leaveRun({ fix: changes, other: changes, 'fixes.work/fixes~1/1': left.partialOf(changes) }, 'r2');
    const folder = join(left.terminal.dir, 'a copy');
    left.git(left.terminal.dir, 'clone', '-q', left.app, folder);
    const unquoted = (words: readonly string[]): readonly string[] => words.map((word) => word.replaceAll("'", ''));
    const mine = (): void => writeFileSync(join(folder, 'both.txt'), 'one\nmine\nthree\n');
    mine();
    for (const [given, branch] of [
      [['--stage', 'other'], 'voidbox/r2/other'],
      [['--partial', '--stage', "'fixes[1].work'"], 'voidbox/r2/fixes-1-.work.partial'],
    ] as const) {
      const { stderr } = await left.terminal.type('apply', 'r2', ...unquoted(given), '--repository', folder);
      const typed = [...stderr.matchAll(/voidbox (apply --(?:3way|branch)[^\n]*?) r2/g)].map(([, words]) => words!);
      const behind = `${given.join(' ')} --repository '/DIR/a copy'`;
      expect(typed).toEqual([`apply --3way ${behind}`, `apply --branch ${behind}`]);
      for (const words of typed) {
        const [options] = words.split(' --repository ') as [string];
        await left.terminal.type(...unquoted(options.split(' ')), '--repository', folder, 'r2');
      }
      expect(readFileSync(join(folder, 'both.txt'), 'utf8')).toContain(`>>>>>>> ${branch}`);
      expect(left.git(folder, 'branch', '--list', branch)).toContain(branch);
      mine();
    }
  });

  test('changes nothing with --check, and excludes --branch and --patch', async () => {
    changeBothSides();
    const before = status();
    const { code, stderr } = await left.terminal.type('apply', 'r1', '--3way', '--check');
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('a merge with /DIR/app has conflicts in 2 files, and nothing was changed:\n  both.txt: '),
    ]);
    expect([status(), read('both.txt')]).toEqual([before, 'one\nmine\nthree\n']);
    for (const other of ['--branch', '--patch']) {
      const refused = await left.terminal.type('apply', 'r1', '--3way', other);
      expect([refused.code, refused.stderr]).toEqual([
        2,
        expect.stringContaining(`--3way and ${other} cannot be combined`),
      ]);
    }
  });

  test('writes nothing through a link, nor in the place of a folder', async () => {
    changeBothSides();
    const outside = join(left.terminal.dir, 'outside');
    mkdirSync(outside);
    symlinkSync(outside, join(left.app, 'sub'));
    const linked = await left.terminal.type('apply', 'r1', '--3way');
    expect([linked.code, linked.stderr]).toEqual([1, expect.stringContaining('beyond a symbolic link')]);
    rmSync(join(left.app, 'sub'));
    mkdirSync(join(left.app, 'sub/new.txt/mine'), { recursive: true });
    const folder = await left.terminal.type('apply', 'r1', '--3way');
    expect([folder.code, folder.stderr]).toEqual([2, expect.stringContaining('/DIR/app, which is as it was: ')]);
    expect([read('both.txt'), existsSync(join(outside, 'new.txt'))]).toEqual(['one\nmine\nthree\n', false]);
  });

  test('puts back all files if git cannot write one, and the next one finds nothing left', async () => {
    changeBothSides();
    const before = status();
    const bin = join(left.terminal.dir, 'bin');
    mkdirSync(bin);
    const fail = `case " $* " in *" --check "*) ;; *" apply "*) PATH=${GIT_PATH} git "$@"; echo "error: unable to write file 'a.txt'" >&2; exit 1;; esac`;
    writeFileSync(join(bin, 'git'), `#!/bin/sh\n${fail}\nPATH=${GIT_PATH} exec git "$@"\n`, { mode: 0o755 });
    left.terminal.variables = { PATH: `${bin}:${process.env['PATH']}` };
    const { code, stderr } = await left.terminal.type('apply', 'r1', '--3way');
    expect([code, stderr]).toEqual([2, expect.stringContaining("which is as it was: unable to write file 'a.txt'")]);
    expect([status(), read('both.txt')]).toEqual([before, 'one\nmine\nthree\n']);
    left.terminal.variables = {};
    const next = await left.terminal.type('apply', 'r1', '--3way');
    expect([next.code, next.stderr]).toEqual([1, expect.not.stringContaining('was killed')]);
  });

  test('starts no merge driver and no other program that the repository names', async () => {
    const canary = join(left.terminal.dir, 'canary');
    plantPrograms(join(left.app, '.git'), canary);
    changeBothSides();
    write('.gitattributes', '* merge=x filter=x diff=x\n');
    left.terminal.variables = { PATH: `${GIT_PATH}:${process.env['PATH']}` };
    expect((await left.terminal.type('apply', 'r1', '--3way')).stderr).toContain('with conflicts in 2 files');
    expect(existsSync(canary)).toBe(false);
  });
});
