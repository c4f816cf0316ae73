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
    identify: () => Promise.resolve({ name: 'one', version: '1.0.0' }),
    log: () => undefined,
  });
  expect(await catalog.find('one')).toMatchObject({ name: 'one', entry: join(skills, 'one/skill.mjs') });
  mkdirSync(join(skills, 'two'));
  writeFileSync(join(skills, 'two/skill.mjs'), 'export default 2;');
  await expect(catalog.find('one')).rejects.toThrow(`skill "one" stands in several places: ${join(skills, 'one/skill.mjs')}, ${join(skills, 'two/skill.mjs')}`);
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

test('what stands in a folder of skills and cannot be looked into costs none of them', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-catalog-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  mkdirSync(join(dir, 'one'));
  writeFileSync(join(dir, 'one/skill.mjs'), 'export default 1;');
  symlinkSync('one/skill.mjs', join(dir, 'file'));
  symlinkSync('circle', join(dir, 'circle'));
  const identify = () => Promise.resolve({ name: 'one', version: '1.0.0' });
  const catalog = new SkillCatalog({ paths: [dir], stateDir: join(dir, 'state'), identify, log: () => undefined });
  expect(await catalog.find('one')).toMatchObject({ name: 'one', entry: join(dir, 'one/skill.mjs') });
});
