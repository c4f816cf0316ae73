/** All that a skill's entry imports, in one file or several: with them nothing has to be found in node_modules when the skill runs. */
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { type OutputChunk, type OutputOptions, type Plugin, type RolldownLog, rolldown } from 'rolldown';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { LEAST_NODE } from './run-scripts.ts';

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
  /** Plugins that change the code of packages. */
  readonly plugins?: readonly Plugin[];
}

export interface BundleMistake {
  readonly message: string;
  /** Null if the mistake has no place. Lines and columns count from 1. */
  readonly place: { readonly file: string; readonly line: number; readonly column: number } | null;
}

export class BundleError extends CodedError {
  readonly mistakes: readonly BundleMistake[];

  constructor(entry: string, mistakes: readonly BundleMistake[], cause?: unknown) {
    const lines = mistakes.map(({ message, place }) =>
      place === null ? message : `${place.file}:${place.line}:${place.column}: ${message}`,
    );
    const what = lines.length === 1 ? ` ${lines[0]}` : lines.map((line) => `\n${line}`).join('');
    super('skill/unusable', `${entry} cannot be bundled:${what}`, { cause });
    this.mistakes = mistakes;
  }
}

export interface BundleOptions {
  /** Code that wraps the entry; without it, the entry is bundled as it is. */
  readonly program?: Program | null;
  /**
   * True if a worker loads the bundle for its definition: then an entry that calls `main` hands the definition over and
   * serves nothing.
   */
  readonly forWorker?: boolean;
  /** Modules that stay outside, by the names under which they are imported: the URL of each. */
  readonly external?: Readonly<Record<string, string>>;
  readonly output?: Pick<OutputOptions, 'minify' | 'comments' | 'sourcemap' | 'sourcemapPathTransform'>;
}

/** A program in several files of one folder: the first is run, the others are loaded by those calls that need them. */
export interface BundledProgram {
  readonly files: readonly { readonly name: string; readonly code: string }[];
}

const PROGRAM = '\0program';

const TSCONFIG_FAILURE = /^Failed to load tsconfig /;
const TSCONFIG_REMEDY =
  'The nearest tsconfig.json of the entry, or a file that it extends, is missing or does not parse: correct it, or remove `extends`';

/** @throws BundleError, a CodedError `skill/unusable`, with every mistake */
export async function bundle(
  entry: string,
  { program = null, forWorker = false, external = {}, output = {} }: BundleOptions = {},
): Promise<Bundle> {
  const { chunks } = await generateBundle(
    entry,
    program,
    { ...resolution(forWorker), external },
    {
      format: 'esm',
      codeSplitting: false,
      ...output,
    },
  );
  const [{ code, moduleIds }] = chunks;
  return { code, modules: moduleIds.filter((id) => existsSync(id)) };
}

/**
 * Bundles as CommonJS, which Node starts with some 20 ms less CPU. Some code needs ES modules: code that awaits at its
 * top level, reads more of `import.meta` than its location, or tests for CommonJS.
 * @param name  the name of all files, without their endings
 * @throws BundleError, a CodedError `skill/unusable`, with every mistake
 */
export async function bundleProgram(
  entry: string,
  name: string,
  program: Program,
  output: BundleOptions['output'] = {},
): Promise<BundledProgram> {
  const as = async (format: 'cjs' | 'esm', ending: string): Promise<GeneratedCode> =>
    generateBundle(entry, program, resolution(false), {
      ...output,
      format,
      entryFileNames: `${name}${ending}`,
      chunkFileNames: `${name}.part-[hash]${ending}`,
    });
  const { chunks } = await as('cjs', '.cjs').then(
    (made) => (made.onlyEsm ? as('esm', '.mjs') : made),
    (cause: unknown) => (needsEsm(cause) ? as('esm', '.mjs') : Promise.reject(cause as Error)),
  );
  return { files: chunks.map(({ fileName, code }) => ({ name: fileName, code })) };
}

interface Resolution {
  readonly alias: Record<string, string>;
  readonly modules: string[];
  readonly external?: BundleOptions['external'];
}

interface GeneratedCode {
  readonly chunks: readonly [OutputChunk, ...OutputChunk[]];
  /** In another format something that the code asks for would be left out, or answered otherwise. */
  readonly onlyEsm: boolean;
}

async function generateBundle(
  entry: string,
  program: Program | null,
  { external = {}, ...resolve }: Resolution,
  output: OutputOptions,
): Promise<GeneratedCode> {
  const unresolved: RolldownLog[] = [];
  let onlyEsm = false;
  try {
    const made = await rolldown({
      input: program === null ? entry : PROGRAM,
      cwd: dirname(entry),
      platform: 'node',
      resolve,
      // Without the paths of modules as comments: the hash of the same code is to be the same wherever its files lie.
      experimental: { attachDebugInfo: 'none' },
      onLog: (_level, log) => {
        // Packages name others that they can do without; what the author imports is needed.
        if (log.code === 'UNRESOLVED_IMPORT' && log.id?.includes('/node_modules/') !== true) unresolved.push(log);
        if (log.code === 'EMPTY_IMPORT_META') onlyEsm = true;
      },
      plugins: [
        outside(external),
        ...(output.format === 'cjs' ? [createNoticePlugin(LOOKS_FOR_COMMONJS, () => (onlyEsm = true))] : []),
        ...(program === null ? [] : [virtual(program), ...(program.plugins ?? [])]),
      ],
      transform: {
        target: `node${LEAST_NODE}`,
        // CommonJS packages find their files by these variables; in a single bundle they name that bundle's folder and
        // file.
        ...(output.format === 'esm'
          ? { define: { __dirname: 'import.meta.dirname', __filename: 'import.meta.filename' } }
          : {}),
      },
    });
    try {
      // The author's ES modules are strict code in every output format.
      const { output: files } = await made.generate({ ...output, strict: true });
      const [first, ...others] = files;
      if (unresolved.length === 0)
        return { chunks: [first, ...others.filter((file) => file.type === 'chunk')], onlyEsm };
    } finally {
      await made.close();
    }
  } catch (cause) {
    const { errors } = cause as { readonly errors?: readonly RolldownLog[] };
    const mistakes =
      errors === undefined ? [{ message: (cause as Error).message, place: null }] : errors.map(mistakeOf);
    const ofTsconfig = mistakes.filter(({ message }) => TSCONFIG_FAILURE.test(message));
    throw new BundleError(
      entry,
      // Without its tsconfig.json the bundler resolves no import, so every other mistake follows from this one.
      ofTsconfig.length > 0
        ? ofTsconfig.map((mistake) => ({ ...mistake, message: `${mistake.message}. ${TSCONFIG_REMEDY}` }))
        : [...mistakes, ...unresolved.map(mistakeOf)],
      cause,
    );
  }
  throw new BundleError(entry, unresolved.map(mistakeOf));
}

function needsEsm(error: unknown): boolean {
  const { cause } = error as { readonly cause?: { readonly errors?: readonly RolldownLog[] } };
  return cause?.errors?.every(({ code }) => code === 'INVALID_TLA_FORMAT') === true;
}

/** An ES module has neither name, and may do something else where it finds them: in CommonJS it finds its bundle's. */
const LOOKS_FOR_COMMONJS = /\btypeof[\s(]+(?:module|exports)\b/;

/** @param notice  is called for each ES module whose code matches */
function createNoticePlugin(pattern: RegExp, notice: () => void): Plugin {
  return {
    name: 'noticing',
    moduleParsed({ inputFormat, code }) {
      if (inputFormat === 'es' && code !== null && pattern.test(code)) notice();
    },
  };
}

function outside(external: Readonly<Record<string, string>>): Plugin {
  return {
    name: 'outside',
    resolveId: (id) => (Object.hasOwn(external, id) ? { id: external[id]!, external: true } : null),
  };
}

/** Serves modules that exist in no file. */
function virtual({ main, modules = {} }: Program): Plugin {
  const texts: Readonly<Record<string, string>> = { ...modules, [PROGRAM]: main };
  return {
    name: 'program',
    resolveId: (id) => (Object.hasOwn(texts, id) ? id : null),
    load: (id) => (Object.hasOwn(texts, id) ? texts[id]! : null),
  };
}

/** A skill runs with the skill-kit of the installation that bundles it. */
function resolution(forWorker: boolean): Resolution {
  const root = findPackageRoot();
  const kit = join(root, 'dist/skill-kit');
  // Installed, our dependencies lie beside us.
  const beside = basename(dirname(root)) === 'node_modules' ? [dirname(root)] : [];
  return {
    alias: {
      'voidbox/skill-kit/test': join(kit, 'test.js'),
      'voidbox/skill-kit/cli': join(kit, forWorker ? 'cli.worker.js' : 'cli.js'),
      'voidbox/skill-kit': join(kit, 'index.bundled.js'),
    },
    modules: ['node_modules', join(root, 'node_modules'), ...beside],
  };
}

function mistakeOf({ message, loc, id }: RolldownLog): BundleMistake {
  const [first = ''] = stripVTControlCharacters(message).split('\n');
  const text = first.replace(/^\[[A-Z_]+\] /, '').trim();
  const file = loc?.file ?? id;
  if (loc !== undefined && file !== undefined && file !== PROGRAM)
    return { message: text, place: { file, line: loc.line, column: loc.column + 1 } };
  return { message: file === undefined || file === PROGRAM ? text : `${file}: ${text}`, place: null };
}
