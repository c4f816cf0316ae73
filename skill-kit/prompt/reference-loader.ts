/** Loads the files that a skill ships next to its code, when a prompt or a topic needs them. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import type { ReferenceLoader } from '../../domain/step-machine/definition.ts';

/**
 * @param baseDir  the skill's folder, the one that holds `references/`
 * @returns a loader whose calls throw an Error naming the file, when it is not there or lies outside
 */
export function createReferenceLoader(baseDir: string): ReferenceLoader {
  const base = resolve(baseDir);
  const folder = join(base, 'references');
  const texts = new Map<string, string>();
  return {
    load(filename) {
      const path = resolveWithin(folder, filename, 'reference');
      const known = texts.get(path);
      if (known !== undefined) return known;
      const text = read(path, filename, folder);
      texts.set(path, text);
      return text;
    },
    asset: (path) => resolveWithin(base, path, 'asset'),
  };
}

/** A model may have written the name, so no name may lead out of the skill. */
function resolveWithin(folder: string, name: string, what: string): string {
  const path = resolve(folder, name);
  if (path.startsWith(folder + sep)) return path;
  throw new Error(`The ${what} "${name}" is outside of ${folder}. Name a file below it.`);
}

function read(path: string, filename: string, folder: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const there = existsSync(folder) ? readdirSync(folder, { recursive: true }).join(', ') : '';
    const what = there === '' ? `There is nothing in ${folder}` : `${folder} holds: ${there}`;
    throw new Error(
      `The reference "${filename}" cannot be read (${code ?? String(cause)}). ${what}. Put the file there, or correct its name.`,
      { cause },
    );
  }
}

/**
 * The folder of the skill that a script belongs to: the script's own or the one above it (`bin/skill.mjs`), whichever holds
 * `references/`; the script's own when neither does.
 */
export function skillDirOf(scriptPath: string): string {
  const own = dirname(resolve(scriptPath));
  const candidates = [own, dirname(own)];
  return candidates.find((dir) => existsSync(join(dir, 'references'))) ?? own;
}
