/** The code that stands around a skill's entry and makes a program of it. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { packageRoot } from '../../../setup/package-root.ts';

/** Where the program finds `references/`: a folder, or the one above that of the script, or of the executable. */
export type ReferencesBase = { readonly folder: string } | 'above-script' | 'above-executable';

/** A module to be bundled; it names nothing of this machine that stays in the bundle, but for a folder that was given. */
export function programOf(entry: string, base: ReferencesBase): string {
  return [
    `import { runProgram } from ${JSON.stringify(join(packageRoot(), 'dist/sdk/skill-kit/build/program-main.js'))};`,
    `import definition from ${JSON.stringify(entry)};`,
    ...(base === 'above-script' ? ["import { fileURLToPath } from 'node:url';"] : []),
    ...(base === 'above-executable' ? ["import { dirname } from 'node:path';"] : []),
    `await runProgram(definition, ${baseExpression(base)}, ${JSON.stringify(packageVersionAbove(dirname(entry)))});`,
  ].join('\n');
}

function baseExpression(base: ReferencesBase): string {
  if (base === 'above-script') return "fileURLToPath(new URL('..', import.meta.url))";
  if (base === 'above-executable') return 'dirname(dirname(process.execPath))';
  return JSON.stringify(base.folder);
}

/** The version in the nearest package.json that has one; null without any. */
export function packageVersionAbove(folder: string): string | null {
  const version = versionIn(join(folder, 'package.json'));
  if (version !== null) return version;
  const parent = dirname(folder);
  return parent === folder ? null : packageVersionAbove(parent);
}

function versionIn(file: string): string | null {
  try {
    const { version } = JSON.parse(readFileSync(file, 'utf8')) as { readonly version?: unknown };
    return typeof version === 'string' ? version : null;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new Error(`${file} cannot be read, and the skill's version may stand there: ${(error as Error).message}`, { cause: error });
  }
}
