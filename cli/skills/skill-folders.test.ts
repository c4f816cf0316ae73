import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AppError } from '../../app/app-error.ts';
import { resolveSkillFolders } from './skill-folders.ts';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-skill-folders-'));
  for (const name of ['empty', 'files', 'many', 'folders/one']) mkdirSync(join(dir, name), { recursive: true });
  for (const name of ['b.ts', "it's.mjs", 'b.test.ts', 'b.d.ts', 'notes.md'])
    writeFileSync(join(dir, 'files', name), '');
  for (let index = 0; index < 9; index += 1) writeFileSync(join(dir, 'many', `s${index}.ts`), '');
  writeFileSync(join(dir, 'folders/one/skill.ts'), '');
});
afterAll(() => rmSync(dir, { recursive: true }));

function refusalOf(path: string, cwd = dir): readonly [string, string | null] {
  try {
    resolveSkillFolders([path], cwd);
  } catch (error) {
    if (error instanceof AppError) return [error.message, error.remedy];
    throw error;
  }
  throw new Error('was not refused');
}

test('a file, a folder of a skill and a folder of such folders are skills', () => {
  expect(resolveSkillFolders(['files/b.ts', 'folders/one', 'folders'], dir)).toEqual([
    join(dir, 'files/b.ts'),
    join(dir, 'folders/one'),
    join(dir, 'folders'),
  ]);
});

test('the message about a folder that has only code files names these files', () => {
  expect(refusalOf('files')).toEqual([
    '--skills: `files` contains no folder of a step machine; its code files are not loaded, because they may not be step machines',
    "Name those that are step machines: --skills files/b.ts 'files/it'\\''s.mjs'\nOr give each step machine a folder with a skill.ts.",
  ]);
  expect(refusalOf('many')[1]).toMatch(/many\/s7\.ts …\n/);
  expect(refusalOf('examples/skills', fileURLToPath(new URL('../..', import.meta.url)))[1]).toContain(
    '--skills examples/skills/contributor-guide.ts examples/skills/parallel-review.ts examples/skills/release-approval.ts examples/skills/repository-doctor.ts\n',
  );
});

test('the error says whether a folder does not exist or contains no step machine', () => {
  expect(refusalOf('gone')[0]).toBe('--skills: `gone` does not exist');
  expect(refusalOf('empty')).toEqual([
    '--skills: there is no step machine at `empty`',
    expect.stringContaining("Name a step machine's file, a folder with a skill.ts"),
  ]);
});
