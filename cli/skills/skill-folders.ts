/** Step machines that `--skills` names, as they are kept. */
import { existsSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { entriesAt } from '../../skill-kit/bundle/find-entry.ts';
import { createUsageError } from '../../app/app-error.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';

/** The number of files that a message names. */
const MOST_NAMED = 8;
const WHAT_SKILLS_ARE =
  "Name a step machine's file, a folder with a skill.ts (.mts, .js, .mjs), a folder that `voidbox skill build` made for Node, or a folder of such folders.";

/**
 * @returns absolute paths
 * @throws AppError for one that holds no step machine: a user who mistypes a folder keeps those that are loaded
 */
export function resolveSkillFolders(paths: readonly string[], cwd: string): string[] {
  return paths.map((path) => {
    const full = resolve(cwd, path);
    if (entriesAt(full).length > 0) return full;
    if (!existsSync(full)) throw createUsageError(`--skills: \`${path}\` does not exist`, WHAT_SKILLS_ARE);
    const files = codeFilesIn(full);
    if (files.length === 0)
      throw createUsageError(`--skills: there is no step machine at \`${path}\``, WHAT_SKILLS_ARE);
    const named = files.map((file) => quoteArgument(join(path, file)));
    throw createUsageError(
      `--skills: \`${path}\` contains no folder of a step machine; its code files are not loaded, because they may not be step machines`,
      `Name those that are step machines: --skills ${named.slice(0, MOST_NAMED).join(' ')}${named.length > MOST_NAMED ? ' …' : ''}\nOr give each step machine a folder with a skill.ts.`,
    );
  });
}

function codeFilesIn(folder: string): readonly string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => /\.[mc]?[jt]s$/.test(name) && !/\.(?:test|spec|d)\.[mc]?[jt]s$/.test(name))
    .filter((entry) => !entry.isDirectory())
    .map(({ name }) => name)
    .sort();
}
