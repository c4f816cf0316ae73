/** What `--skills` names, as it is kept. */
import { resolve } from 'node:path';
import { entriesAt } from '../skill-kit/bundle/find-entry.ts';
import { usageError } from './cli-error.ts';

/**
 * @returns absolute paths
 * @throws CliError for one that holds no skill: whoever mistypes a folder shall not lose those that are loaded
 */
export function givenSkills(paths: readonly string[], cwd: string): string[] {
  return paths.map((path) => {
    const full = resolve(cwd, path);
    if (entriesAt(full).length === 0) {
      throw usageError(
        `--skills: there is no skill at \`${path}\``,
        "Name a skill's file, a folder with a skill.ts (.mts, .js, .mjs), a folder that `voidbox skill build` made for Node, or a folder of such folders.",
      );
    }
    return full;
  });
}
