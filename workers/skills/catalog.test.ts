import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { SkillCatalog } from './catalog.ts';

test('a skill that is named by its entry, by its folder, by a folder above and by a link is one skill; two of a name are refused', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-catalog-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const skills = join(dir, 'skills');
  mkdirSync(join(skills, 'one'), { recursive: true });
  writeFileSync(join(skills, 'one/skill.mjs'), 'export default 1;');
  symlinkSync(join(skills, 'one'), join(dir, 'link'));
  const catalog = new SkillCatalog({
    paths: [join(skills, 'one/skill.mjs'), join(skills, 'one'), skills, join(dir, 'link')],
    stateDir: join(dir, 'state'),
    identify: () => Promise.resolve({ name: 'one', version: '1.0.0', env: [] }),
    log: () => undefined,
  });
  expect(await catalog.find('one')).toMatchObject({ name: 'one', entry: join(skills, 'one/skill.mjs') });
  mkdirSync(join(skills, 'two'));
  writeFileSync(join(skills, 'two/skill.mjs'), 'export default 2;');
  const first = await catalog.find('one').catch((error: Error) => error);
  expect(first).toMatchObject({
    code: 'skill/ambiguous',
    message: expect.stringMatching(/^2 different codes are loaded as skill "one":/),
  });
  const lines = (first as Error).message.split('\n').slice(1);
  expect(lines.map((line) => line.trim().replace(/^[0-9a-f]{12} /, 'HASH '))).toEqual([
    `HASH  version 1.0.0, ${join(skills, 'one/skill.mjs')}`,
    `HASH  version 1.0.0, ${join(skills, 'two/skill.mjs')}`,
  ]);
  const second = lines[1]!.trim().slice(0, 12);
  expect(await catalog.find('one', '1.0.0', second)).toMatchObject({ entry: join(skills, 'two/skill.mjs') });
  await expect(catalog.find('one', undefined, '00000000')).rejects.toMatchObject({
    code: 'skill/unknown',
    message: expect.stringContaining(`code ${second}`),
  });
});

test('the same code in two places is one skill', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-catalog-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  for (const name of ['one', 'copy']) {
    mkdirSync(join(dir, name));
    writeFileSync(join(dir, name, 'skill.mjs'), 'export default 1;');
  }
  const identify = () => Promise.resolve({ name: 'one', version: '1.0.0', env: [] });
  const catalog = new SkillCatalog({ paths: [dir], stateDir: join(dir, 'state'), identify, log: () => undefined });
  expect(await catalog.find('one')).toMatchObject({ name: 'one', entry: join(dir, 'copy/skill.mjs') });
  expect(await catalog.current('one')).not.toBeNull();
});

test('a folder that was built for Node is a skill, also beside others', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-catalog-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  mkdirSync(join(dir, 'built/bin'), { recursive: true });
  for (const file of ['SKILL.md', 'bin/built.part-aBcD1234.cjs']) writeFileSync(join(dir, 'built', file), '');
  writeFileSync(join(dir, 'built/bin/built.cjs'), 'module.exports = 1;');
  // For bun: nothing there that a worker could load.
  mkdirSync(join(dir, 'executable/bin'), { recursive: true });
  for (const file of ['SKILL.md', 'bin/executable-linux-x64']) writeFileSync(join(dir, 'executable', file), '');
  const identify = () => Promise.resolve({ name: 'built', version: '1.0.0', env: [] });
  for (const paths of [[dir], [join(dir, 'built')]]) {
    const catalog = new SkillCatalog({ paths, stateDir: join(dir, 'state'), identify, log: () => undefined });
    expect(await catalog.find('built')).toMatchObject({ entry: join(dir, 'built/bin/built.cjs') });
  }
});

test('a skill that cannot be loaded is tried again when its files change and when a session is started, not at every turn', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-catalog-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  const entry = join(dir, 'skill.mjs');
  writeFileSync(entry, 'export default 1;');
  let tries = 0;
  const catalog = new SkillCatalog({
    paths: [entry],
    stateDir: join(dir, 'state'),
    identify: () => {
      tries += 1;
      return Promise.reject(new Error('no skill'));
    },
    log: () => undefined,
  });
  await expect(catalog.find('one')).rejects.toThrow('no skill');
  expect(tries).toBe(1);
  for (let turn = 0; turn < 3; turn++) {
    vi.advanceTimersByTime(5_000);
    expect(await catalog.current('one')).toBeNull();
  }
  expect(tries).toBe(1);
  writeFileSync(entry, 'export default 22;');
  vi.advanceTimersByTime(5_000);
  await catalog.current('one');
  expect(tries).toBe(2);
  await expect(catalog.find('one')).rejects.toThrow('no skill');
  expect(tries).toBe(3);
});

test('an unreadable entry in a folder of skills hides none of the skills', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-catalog-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  mkdirSync(join(dir, 'one'));
  writeFileSync(join(dir, 'one/skill.mjs'), 'export default 1;');
  symlinkSync('one/skill.mjs', join(dir, 'file'));
  symlinkSync('circle', join(dir, 'circle'));
  const identify = () => Promise.resolve({ name: 'one', version: '1.0.0', env: [] });
  const catalog = new SkillCatalog({ paths: [dir], stateDir: join(dir, 'state'), identify, log: () => undefined });
  expect(await catalog.find('one')).toMatchObject({ name: 'one', entry: join(dir, 'one/skill.mjs') });
});

test('a skill at a path is one that the worker has, by its entry or its folder, and never any other file', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-catalog-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  for (const name of ['known', 'other']) {
    mkdirSync(join(dir, name));
    writeFileSync(join(dir, name, 'skill.mjs'), `export default '${name}';`);
  }
  const identified: string[] = [];
  const catalog = new SkillCatalog({
    paths: [join(dir, 'known')],
    stateDir: join(dir, 'state'),
    identify: ({ bundle }) => {
      identified.push(bundle);
      return Promise.resolve({ name: 'known', version: '1.0.0', env: [] });
    },
    log: () => undefined,
  });
  const entry = join(dir, 'known/skill.mjs');
  expect(await catalog.at(join(dir, 'known'))).toMatchObject({ name: 'known', entry });
  expect(await catalog.at(entry)).toMatchObject({ entry });
  for (const path of [join(dir, 'other'), join(dir, 'other/skill.mjs'), join(dir, 'nowhere'), dir])
    await expect(catalog.at(path)).rejects.toMatchObject({
      code: 'skill/unknown',
      message: expect.stringContaining(path),
    });
  expect(identified).toHaveLength(1);
});
