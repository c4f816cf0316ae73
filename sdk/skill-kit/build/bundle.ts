/** All that a skill's entry imports, in one file: with it nothing has to be found in node_modules when the skill runs. */
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { type OutputOptions, type Plugin, type RolldownLog, rolldown } from 'rolldown';
import { CodedError } from '../../../domain/errors/coded-error.ts';
import { packageRoot } from '../../../setup/package-root.ts';

export interface Bundle {
  readonly code: string;
  /** Full paths of the files that it was made of. */
  readonly modules: readonly string[];
}

export interface Program {
  /** Imports the entry by its full path. */
  readonly main: string;
  /** Further modules, by the names under which it imports them. */
  readonly modules?: Readonly<Record<string, string>>;
}

export interface BundleOptions {
  /** Code that stands around the entry; without it the entry is bundled as it is. */
  readonly program?: Program;
  /** Whoever loads the bundle wants the definition: an entry that calls `main` hands it over and serves nothing. */
  readonly isHosted?: boolean;
  readonly output?: Pick<OutputOptions, 'minify' | 'comments' | 'sourcemap' | 'sourcemapPathTransform'>;
}

const PROGRAM = '\0program';

/** @throws CodedError `skill/unusable` with the place of every mistake */
export async function bundle(entry: string, { program, isHosted = false, output = {} }: BundleOptions = {}): Promise<Bundle> {
  const unresolved: RolldownLog[] = [];
  try {
    const made = await rolldown({
      input: program === undefined ? entry : PROGRAM,
      cwd: dirname(entry),
      platform: 'node',
      resolve: resolution(isHosted),
      onLog: (_level, log) => {
        // Packages name others that they can do without; what the author imports is needed.
        if (log.code === 'UNRESOLVED_IMPORT' && log.id?.includes('/node_modules/') !== true) unresolved.push(log);
      },
      ...(program === undefined ? {} : { plugins: [virtual(program)] }),
    });
    try {
      const generated = await made.generate({ format: 'esm', codeSplitting: false, ...output });
      const [{ code, moduleIds }] = generated.output;
      if (unresolved.length === 0) return { code, modules: moduleIds.filter((id) => existsSync(id)) };
    } finally {
      await made.close();
    }
  } catch (cause) {
    const { errors } = cause as { readonly errors?: readonly RolldownLog[] };
    throw notBundled(entry, errors === undefined ? [(cause as Error).message] : errors.map(describe), cause);
  }
  throw notBundled(entry, unresolved.map(describe));
}

/** Modules that stand in no file. */
function virtual({ main, modules = {} }: Program): Plugin {
  const texts: Readonly<Record<string, string>> = { ...modules, [PROGRAM]: main };
  return {
    name: 'program',
    resolveId: (id) => (Object.hasOwn(texts, id) ? id : null),
    load: (id) => (Object.hasOwn(texts, id) ? texts[id]! : null),
  };
}

/** A skill runs with the skill-kit of whoever bundles it. */
function resolution(isHosted: boolean): { readonly alias: Record<string, string>; readonly modules: string[] } {
  const root = packageRoot();
  const kit = join(root, 'dist/sdk/skill-kit');
  // Installed, our dependencies lie beside us.
  const beside = basename(dirname(root)) === 'node_modules' ? [dirname(root)] : [];
  return {
    alias: {
      'voidbox/skill-kit/test': join(kit, 'test.js'),
      'voidbox/skill-kit/cli': join(kit, isHosted ? 'cli.hosted.js' : 'cli.js'),
      'voidbox/skill-kit': join(kit, 'index.bundled.js'),
    },
    modules: ['node_modules', join(root, 'node_modules'), ...beside],
  };
}

function notBundled(entry: string, lines: readonly string[], cause?: unknown): CodedError {
  const what = lines.length === 1 ? ` ${lines[0]}` : lines.map((line) => `\n${line}`).join('');
  return new CodedError('skill/unusable', `${entry} cannot be bundled:${what}`, { cause });
}

/** `file:line:column: text`; columns count from 1, as editors do. */
function describe({ message, loc, id }: RolldownLog): string {
  const [first = ''] = stripVTControlCharacters(message).split('\n');
  const text = first.replace(/^\[[A-Z_]+\] /, '').trim();
  const file = loc?.file ?? id;
  if (file === undefined || file === PROGRAM) return text;
  return loc === undefined ? `${file}: ${text}` : `${file}:${loc.line}:${loc.column + 1}: ${text}`;
}
