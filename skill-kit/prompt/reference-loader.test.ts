import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createReferenceLoader, skillDirOf } from './reference-loader.ts';

let base: string;
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'voidbox-references-'));
  await mkdir(join(base, 'references/deep'), { recursive: true });
  await mkdir(join(base, 'bin'));
  await writeFile(join(base, 'references/a.md'), '# A');
  await writeFile(join(base, 'references/deep/b.md'), '# B');
  await writeFile(join(base, 'secret.md'), 'secret');
});
afterEach(() => rm(base, { recursive: true }));

describe('a reference loader', () => {
  it('reads what lies below references/, and knows it from then on', async () => {
    const { load } = createReferenceLoader(base);
    expect([load('a.md'), load('deep/b.md')]).toEqual(['# A', '# B']);
    await rm(join(base, 'references'), { recursive: true });
    expect(load('a.md')).toBe('# A');
  });

  it('says of a file that is not there which ones are', () => {
    expect(() => createReferenceLoader(base).load('c.md')).toThrow(
      /"c\.md" cannot be read \(ENOENT\).* holds: .*a\.md/,
    );
    expect(() => createReferenceLoader(join(base, 'bin')).load('a.md')).toThrow(
      /There is nothing in .*bin\/references/,
    );
  });

  it.each(['../secret.md', 'deep/../../secret.md', '/etc/passwd', ''])('leads nowhere else: "%s"', (name) => {
    expect(() => createReferenceLoader(base).load(name)).toThrow('is outside');
  });

  it('gives the full path of what else the skill ships, and of nothing beyond', () => {
    const { asset } = createReferenceLoader(base);
    expect(asset('bin/tool')).toBe(join(base, 'bin/tool'));
    expect(() => asset('../tool')).toThrow('is outside');
  });
});

describe('the folder of a skill', () => {
  it("is its script's own or the one above, whichever has references/", () => {
    expect(skillDirOf(join(base, 'bin/skill.mjs'))).toBe(base);
    expect(skillDirOf(join(base, 'skill.mjs'))).toBe(base);
    expect(skillDirOf(join(base, 'references/deep/skill.mjs'))).toBe(join(base, 'references/deep'));
  });
});
