import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TemporaryFolder } from '../../test/rig/skills/skill-command.ts';
import { copyTree } from './copy-tree.ts';
import { BUILT_WITH, checkTarget, codeOutputErrors, replaceFolder } from './output-folder.ts';

let folder: TemporaryFolder;
beforeEach(() => {
  folder = new TemporaryFolder();
});
afterEach(() => folder[Symbol.dispose]());

function put(name: string, text = name): void {
  mkdirSync(dirname(folder.file(name)), { recursive: true });
  writeFileSync(folder.file(name), text);
}

const taken = (force = false): void => checkTarget(folder.file('out'), force);

describe('a folder that is to be built into', () => {
  it('may be missing, empty, hold only a package.json, or be built', () => {
    taken();
    mkdirSync(folder.file('out'));
    taken();
    put('out/package.json');
    taken();
    put('out/SKILL.md', `---\nname: x\nmetadata:\n  ${BUILT_WITH}: "voidbox"\n---\n`);
    put('out/notes.txt');
    taken();
  });

  it.each([
    ['out/notes.txt', 'x'],
    ['out/SKILL.md', '---\nname: by-hand\n---\n'],
    ['out/SKILL.md', `---\nname: by-hand\n---\n\n  ${BUILT_WITH}: in the text\n`],
  ])('is left untouched if it holds %s (%j), unless forced', (name, text) => {
    put(name, text);
    expect(() => taken()).toThrow(expect.objectContaining({ code: 'skill/output-taken' }) as Error);
    taken(true);
  });

  it('is never a file', () => {
    put('out');
    expect(() => taken(true)).toThrow('is not a folder');
  });
});

describe('replacing a folder', () => {
  const own = (path: string): boolean => ['SKILL.md', 'bin/x.mjs', 'references'].includes(path);
  const fill = async (next: string): Promise<void> => writeFileSync(`${next}/SKILL.md`, 'new');

  it('makes it, with the folders above it', async () => {
    await replaceFolder(folder.file('a/b/out'), own, fill);
    expect(readdirSync(folder.file('a/b'))).toEqual(['out']);
    expect(readFileSync(folder.file('a/b/out/SKILL.md'), 'utf8')).toBe('new');
  });

  it('takes what is not its own along, and drops what it does not write any more', async () => {
    for (const name of ['SKILL.md', 'LICENSE', '.git/config', 'bin/x.mjs', 'bin/tool', 'references/a.md'])
      put(`out/${name}`);
    symlinkSync('LICENSE', folder.file('out/link'));
    await replaceFolder(folder.file('out'), own, fill);
    expect(readdirSync(folder.file('out'), { recursive: true }).toSorted()).toEqual([
      '.git',
      '.git/config',
      'LICENSE',
      'SKILL.md',
      'bin',
      'bin/tool',
      'link',
    ]);
    expect(readFileSync(folder.file('out/SKILL.md'), 'utf8')).toBe('new');
    expect(readdirSync(folder.path)).toEqual(['out']);
  });

  it('keeps a file that was added while the new folder was being filled', async () => {
    put('out/SKILL.md', 'old');
    await replaceFolder(folder.file('out'), own, async (next) => {
      await fill(next);
      put('out/late.txt');
    });
    expect(readdirSync(folder.file('out')).toSorted()).toEqual(['SKILL.md', 'late.txt']);
  });

  it('replaces the folder of another build that finished first', async () => {
    put('out/LICENSE');
    let rounds = 0;
    const meeting = (path: string): boolean => {
      rounds += 1;
      if (rounds === 1) for (const name of ['SKILL.md', 'other.txt']) put(`out/${name}`, 'the other');
      return own(path);
    };
    await replaceFolder(folder.file('out'), meeting, fill);
    expect(readdirSync(folder.file('out')).toSorted()).toEqual(['LICENSE', 'SKILL.md', 'other.txt']);
    expect(readFileSync(folder.file('out/SKILL.md'), 'utf8')).toBe('new');
    expect(readdirSync(folder.path)).toEqual(['out']);
  });

  it('puts everything back when something cannot be taken along', async () => {
    for (const name of ['SKILL.md', 'a.txt', 'bin/tool', 'scripts']) put(`out/${name}`, 'old');
    const before = readdirSync(folder.file('out'), { recursive: true }).toSorted();
    const failing = replaceFolder(folder.file('out'), own, async (next) => {
      await fill(next);
      mkdirSync(`${next}/scripts`);
    });
    await expect(codeOutputErrors('OUT', () => failing)).rejects.toMatchObject({
      code: 'skill/output-taken',
      message: expect.stringMatching(/^OUT cannot be built: .*scripts/),
    });
    expect(readdirSync(folder.file('out'), { recursive: true }).toSorted()).toEqual(before);
    expect(readFileSync(folder.file('out/SKILL.md'), 'utf8')).toBe('old');
    expect(readdirSync(folder.path)).toEqual(['out']);
  });

  it('says where the files are when they cannot be put back', async () => {
    put('out/SKILL.md', 'old');
    const failing = replaceFolder(
      folder.file('out'),
      () => {
        // A file appears at the path during the moment in which it is empty.
        put('out');
        throw new Error('stop');
      },
      fill,
    );
    await expect(failing).rejects.toMatchObject({
      code: 'skill/output-taken',
      message: expect.stringContaining(folder.file('.out.build-')),
    });
    const [beside = ''] = readdirSync(folder.path).filter((name) => name !== 'out');
    expect(readFileSync(folder.file(`${beside}/before-0/SKILL.md`), 'utf8')).toBe('old');
  });

  it('leaves it as it was when filling fails, at any time before the end', async () => {
    put('out/SKILL.md', 'old');
    const failing = replaceFolder(folder.file('out'), own, async (next) => {
      await fill(next);
      expect(readFileSync(folder.file('out/SKILL.md'), 'utf8')).toBe('old');
      throw new Error('bun failed');
    });
    await expect(failing).rejects.toThrow('bun failed');
    expect(readFileSync(folder.file('out/SKILL.md'), 'utf8')).toBe('old');
    expect(readdirSync(folder.path)).toEqual(['out']);
  });
});

describe('copying what a skill ships', () => {
  it('follows links, and keeps what may be executed', () => {
    put('elsewhere.md', 'text');
    put('from/deep/tool');
    symlinkSync('../../elsewhere.md', folder.file('from/deep/link.md'));
    copyTree(folder.file('from'), folder.file('to'));
    expect(readFileSync(folder.file('to/deep/link.md'), 'utf8')).toBe('text');
    expect(existsSync(folder.file('to/deep/tool'))).toBe(true);
  });

  it.each([
    ['..', /leads to .*from, which contains it/],
    ['nowhere', /is a broken link/],
    ['/dev/null', /is not a file/],
  ])('refuses a link to %s', (target, message) => {
    put('from/a/b.md');
    symlinkSync(target, folder.file('from/a/link'));
    expect(() => copyTree(folder.file('from'), folder.file('to'))).toThrow(message);
  });
});
