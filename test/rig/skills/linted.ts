/** Lints a skill that a test writes, as files in a folder of its own. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { lintSkill } from '../../../skill-kit/lint/lint-skill.ts';
import type { PlacedDiagnostic } from '../../../skill-kit/lint/diagnostic.ts';

/** Texts by path; `skill.ts` is the entry. A single text is the text of the entry. */
export type SkillFiles = string | Readonly<Record<string, string>>;

/** Returns the diagnostics of lint, with paths relative to the folder. */
export async function linted(files: SkillFiles): Promise<readonly PlacedDiagnostic[]> {
  return await withSkill(files, async (folder) =>
    (await lintSkill(folder)).map((one) => ({ ...one, file: relative(folder, one.file) })),
  );
}

export async function withSkill<T>(files: SkillFiles, use: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-lint-'));
  try {
    for (const [path, text] of Object.entries(typeof files === 'string' ? { 'skill.ts': files } : files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** `skill.ts:3:5 error[rule]`. */
export function placeAndRule({ file, line, column, severity, rule }: PlacedDiagnostic): string {
  return `${file}:${line}:${column} ${severity}[${rule}]`;
}
