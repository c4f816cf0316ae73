/** Writes the code that wraps a skill's entry and makes a program of it. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { findPackageRoot } from '../../setup/package-root.ts';
import type { RunOrigin } from './run-origin.ts';
import type { Program } from './bundle.ts';
import { lazyArktype } from './lazy-arktype.ts';
import { FileRefusal } from '../../files/open-file.ts';
import { readPackageFile } from './package-file.ts';

/** Where the program finds `references/`: the folder of the source that it runs, or the one above that of the script, or of the executable. */
export type ReferencesBase = { readonly folder: string } | 'above-script' | 'above-executable';

const STDOUT = 'voidbox:stdout';
const ENVIRONMENT = 'voidbox:environment';
const ARKTYPE = 'voidbox:arktype';
const GUARD = 'voidbox:guard';

/**
 * A program to be bundled; it names nothing of this machine that stays in the bundle, but for the source that it runs.
 * @param modules  what the entry imports, where that is known: libraries are then set up for a program that runs for one call
 */
export function programOf(entry: string, base: ReferencesBase, modules: readonly string[] = []): Program {
  const arktype = arktypeConfigs(modules);
  const origin =
    typeof base === 'string'
      ? ''
      : `, ${JSON.stringify({ entry, voidboxRoot: findPackageRoot() } satisfies RunOrigin)}`;
  const main = [
    // These come first, since they count for what is loaded after them.
    `import '${STDOUT}';`,
    `import '${ENVIRONMENT}';`,
    ...(arktype.length === 0 ? [] : [`import '${ARKTYPE}';`]),
    ...(typeof base === 'string' ? [] : [`import { loaded } from '${GUARD}';`]),
    `import { runProgram } from ${JSON.stringify(join(findPackageRoot(), 'dist/skill-kit/bundle/program-main.js'))};`,
    `import definition from ${JSON.stringify(entry)};`,
    ...(base === 'above-script' ? ["import { fileURLToPath } from 'node:url';"] : []),
    ...(base === 'above-executable' ? ["import { dirname } from 'node:path';"] : []),
    ...(typeof base === 'string' ? [] : ['loaded();']),
    // CommonJS has no top-level await, so this is not awaited; a rejection still ends the process.
    `void runProgram(definition, ${baseExpression(base)}, ${JSON.stringify(packageVersionAbove(dirname(entry)))}${origin});`,
  ];
  return {
    main: main.join('\n'),
    modules: {
      [STDOUT]: stdoutClaim(),
      [ENVIRONMENT]: renderWithheldEnvironment(),
      [ARKTYPE]: arktype.map(renderJitlessImport).join('\n'),
      [GUARD]: guard(entry),
    },
    plugins: lazyArktype(modules),
  };
}

/** Without this, output that libraries print while loading would precede the answer or break a protocol. */
function stdoutClaim(): string {
  return `import { claimStdout } from ${JSON.stringify(join(findPackageRoot(), 'dist/skill-kit/cli/own-stdout.js'))};\nclaimStdout();`;
}

/** The author's code is loaded as a worker loads it. */
function renderWithheldEnvironment(): string {
  return `import { withholdEnvironment } from ${JSON.stringify(join(findPackageRoot(), 'dist/skill-kit/drive/skill-environment.js'))};\nwithholdEnvironment();`;
}

/** Until the entry has been loaded: a mistake in it is the author's, with the lines of the source, and not one of Node. */
function guard(entry: string): string {
  return `
    const fail = (error) => {
      loaded();
      // An entry that is a program itself deals with what happens in it.
      if (process.listenerCount('uncaughtException') > 0) return;
      const lines = error instanceof Error ? [error.message] : [String(error)];
      // Its builder names the steps; where it was called says nothing more.
      if (error?.name !== 'SkillDefinitionError') lines.push(...(error?.stack?.split('\\n').filter((line) => /^ +at /.test(line)) ?? []));
      process.stderr.write('error: ' + ${JSON.stringify(entry)} + ' fails when it is loaded: ' + lines.join('\\n') + '\\n');
      process.exit(2);
    };
    const giveUp = () => fail('it waits for something that never comes; look at what is awaited outside of functions');
    process.on('uncaughtException', fail).on('beforeExit', giveUp);
    export const loaded = () => void process.off('uncaughtException', fail).off('beforeExit', giveUp);
  `;
}

/** ArkType compiles what checks its values, which costs more than checking the one answer of a call. */
function renderJitlessImport(config: string, index: number): string {
  return `import { configure as configure${index} } from ${JSON.stringify(config)};\nconfigure${index}({ jitless: true });`;
}

/** Returns the configuration file of each copy of ArkType among the modules. */
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
    const { version } = readPackageFile(file) as { readonly version?: unknown };
    return typeof version === 'string' ? version : null;
  } catch (error) {
    if (error instanceof FileRefusal && error.reason === 'missing') return null;
    throw new Error(`${file} cannot be read, but may hold the skill's version: ${(error as Error).message}`, {
      cause: error,
    });
  }
}
