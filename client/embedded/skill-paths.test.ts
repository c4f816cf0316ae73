import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { isKnownEntry, rememberSkillPaths, skillPaths } from './skill-paths.ts';

test('an entry that a folder brings already is not added, a new folder is, and replacing takes what is named', () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-skill-paths-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const stateDir = join(dir, 'state');
  const [skills, others] = [join(dir, 'skills'), join(dir, 'others')];
  const entry = join(skills, 'one', 'skill.mjs');
  for (const folder of [join(skills, 'one'), others]) mkdirSync(folder, { recursive: true });
  writeFileSync(entry, 'export default 1;');
  symlinkSync(entry, join(dir, 'link.mjs'));
  rememberSkillPaths(stateDir, [skills], 'replace');
  rememberSkillPaths(stateDir, [entry, join(dir, 'link.mjs')], 'add');
  expect(skillPaths(stateDir)).toEqual([skills]);
  expect(isKnownEntry(stateDir, entry)).toBe(true);
  rememberSkillPaths(stateDir, [others], 'add');
  expect(skillPaths(stateDir)).toEqual([skills, others]);
  const second = join(dir, 'second.mjs');
  writeFileSync(second, 'export default 2;');
  expect(isKnownEntry(stateDir, second)).toBe(false);
  rememberSkillPaths(stateDir, [second], 'add');
  expect(skillPaths(stateDir)).toEqual([skills, others, second]);
  rememberSkillPaths(stateDir, [entry], 'replace');
  expect(skillPaths(stateDir)).toEqual([entry]);
});

test.each([
  ['text that is not JSON', '{"paths":'],
  ['no list', '{"paths":"/skills"}'],
  ['a relative path', '{"paths":["skills"]}'],
  ['no object', 'null'],
])('a file with %s is an error with a remedy', (_what, text) => {
  const stateDir = mkdtempSync(join(tmpdir(), 'voidbox-skill-paths-'));
  onTestFinished(() => rmSync(stateDir, { recursive: true }));
  const file = join(stateDir, 'skills.json');
  writeFileSync(file, text);
  expect(() => skillPaths(stateDir)).toThrow(
    expect.objectContaining({
      name: 'SetupError',
      message: `${file}, the folders of step machines for sessions, cannot be used: it does not contain a list of absolute paths`,
      remedy: `Remove it, then load the step machines again: rm ${file} && voidbox up --skills FOLDER`,
    }),
  );
});
