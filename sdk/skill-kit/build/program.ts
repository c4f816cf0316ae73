/** The code that stands around a skill's entry and makes a program of it. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { packageRoot } from '../../../setup/package-root.ts';
import type { RunOrigin } from '../run-origin.ts';
import type { Program } from './bundle.ts';

/** Where the program finds `references/`: the folder of the source that it runs, or the one above that of the script, or of the executable. */
export type ReferencesBase = { readonly folder: string } | 'above-script' | 'above-executable';

const ARKTYPE = 'voidbox:arktype';

/**
 * A program to be bundled; it names nothing of this machine that stays in the bundle, but for the source that it runs.
 * @param modules  what the entry imports, where that is known: libraries are then set up for a program that runs for one call
 */
export function programOf(entry: string, base: ReferencesBase, modules: readonly string[] = []): Program {
  const arktype = arktypeConfigs(modules);
  const origin = typeof base === 'string' ? '' : `, ${JSON.stringify({ entry, voidboxRoot: packageRoot() } satisfies RunOrigin)}`;
  const main = [
    // Comes first, since it counts for what is loaded after it.
    ...(arktype.length === 0 ? [] : [`import '${ARKTYPE}';`]),
    `import { runProgram } from ${JSON.stringify(join(packageRoot(), 'dist/sdk/skill-kit/build/program-main.js'))};`,
    `import definition from ${JSON.stringify(entry)};`,
    ...(base === 'above-script' ? ["import { fileURLToPath } from 'node:url';"] : []),
    ...(base === 'above-executable' ? ["import { dirname } from 'node:path';"] : []),
    // Not awaited at the top level, which CommonJS has none of; what it rejects with ends the process all the same.
    `void runProgram(definition, ${baseExpression(base)}, ${JSON.stringify(packageVersionAbove(dirname(entry)))}${origin});`,
  ];
  return { main: main.join('\n'), modules: { [ARKTYPE]: arktype.map(interpreted).join('\n') } };
}

/** ArkType compiles what checks its values, which costs more than checking the one answer of a call. */
function interpreted(config: string, index: number): string {
  return `import { configure as configure${index} } from ${JSON.stringify(config)};\nconfigure${index}({ jitless: true });`;
}

/** Of each copy of ArkType among the modules, the file that configures it. */
function arktypeConfigs(modules: readonly string[]): readonly string[] {
  const own = modules.filter((path) => path.includes('/node_modules/arktype/'));
  return [...new Set(own.map((path) => createRequire(path).resolve('arktype/config')))];
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
