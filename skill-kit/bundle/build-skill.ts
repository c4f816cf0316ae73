/** From a skill's source to a folder of agentskills.io that runs without it. */
import { chmodSync, existsSync, mkdirSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, join, resolve, sep } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Buildable } from '../../domain/step-machine/definition.ts';
import { listFilesBelow } from '../../setup/cache/files-below.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { bundle, bundleProgram, type BundleOptions, type Program } from './bundle.ts';
import { BUN_TARGETS, type BunTarget, type Compilation, compileAll } from './bun.ts';
import { findEntry } from './find-entry.ts';
import { complianceProblems, hostFieldNames } from './frontmatter.ts';
import { loadSkill, type LoadedSource } from './load-skill.ts';
import { copyTree } from './copy-tree.ts';
import { checkTarget, codeOutputErrors, resolveTarget, replaceFolder } from './output-folder.ts';
import { readExistingPackage, packageJson } from './package-json.ts';
import { packageVersionAbove, programOf } from './program.ts';
import { executableScript, LEAST_NODE, nodeScript } from './run-scripts.ts';
import { type Protocol, skillMd } from './skill-md.ts';

/** Beside the entry, for the skill to load. */
const SHIPPED = ['references', 'assets'];

export interface BuildDiagnostic {
  readonly severity: 'error' | 'warning';
  readonly message: string;
}

/** A bundle that Node runs, or executables that bring their runtime. */
export type BuildMode =
  | { readonly kind: 'node' }
  | { readonly kind: 'bun'; readonly bun: string; readonly targets: readonly BunTarget[] };

export interface BuildRequest<Diagnostic extends BuildDiagnostic> {
  /** The entry, or the folder of the skill. */
  readonly path: string;
  readonly cwd: string;
  /** Is called like the skill. */
  readonly outDir: string;
  readonly mode: BuildMode;
  /** Which of the ways to call the program SKILL.md explains. */
  readonly protocol: Protocol;
  /** Fills a folder as well that holds something else. */
  readonly force: boolean;
  /** Comes before everything, also before the code is loaded. */
  readonly lint: (entry: string) => Promise<readonly Diagnostic[]>;
}

export interface BuildReport {
  readonly name: string;
  readonly version: string;
  /** Full path. */
  readonly folder: string;
  /** Paths in it, of all that the build wrote. */
  readonly files: readonly string[];
  /** Remarks for the author. */
  readonly notes: readonly string[];
}

export interface BuildResult<Diagnostic> {
  /** Null when lint found errors: nothing has been written. */
  readonly built: BuildReport | null;
  readonly diagnostics: readonly Diagnostic[];
}

/** @throws CodedError `skill/not-found`, `skill/unusable`, `skill/not-compliant`, `skill/output-taken`, `skill/bun` */
export async function buildSkill<Diagnostic extends BuildDiagnostic>(
  request: BuildRequest<Diagnostic>,
): Promise<BuildResult<Diagnostic>> {
  const entry = findEntry(request.path, request.cwd);
  const diagnostics = await request.lint(entry);
  if (diagnostics.some(({ severity }) => severity === 'error')) return { built: null, diagnostics };
  const source = await loadSkill(entry);
  const outDir = resolve(request.cwd, request.outDir);
  return { built: await codeOutputErrors(outDir, () => fillFolder(source, outDir, request)), diagnostics };
}

async function fillFolder(
  source: LoadedSource,
  outDir: string,
  { mode, protocol, force, cwd }: BuildRequest<BuildDiagnostic>,
): Promise<BuildReport> {
  const { definition } = source;
  const target = resolveTarget(outDir);
  const problems = complianceProblems(definition, basename(outDir));
  if (problems.length > 0)
    throw new CodedError(
      'skill/not-compliant',
      `${source.entry} is not a valid skill of agentskills.io: ${problems.join('; ')}`,
    );
  const version = versionOf(source);
  checkTarget(target, force);
  const existing = readExistingPackage(target);
  // If a skill is built into its source folder, the folder already has the shipped files, and they belong to the
  // source.
  const shipped = realpathSync(source.folder) === target ? [] : SHIPPED;
  let files: readonly string[] = [];
  await replaceFolder(target, ownPaths(definition.name, shipped), async (folder, interrupted) => {
    await writeProgram(source, mode, folder, interrupted);
    copyShipped(source.folder, shipped, folder);
    writeFileSync(
      join(folder, 'SKILL.md'),
      skillMd({ definition, version, needs: needsOf(mode), builtWith: readBuilderVersion() }, protocol),
    );
    writeFileSync(join(folder, 'package.json'), packageJson(definition, version, existing));
    files = listFilesBelow(folder).map(({ path }) => path);
  });
  return {
    name: definition.name,
    version,
    folder: target,
    files,
    notes: [...notesOn(definition), ...notesOnPlace(target, cwd)],
  };
}

function versionOf({ definition, folder, entry }: LoadedSource): string {
  if (!definition.resolveVersion) return definition.version;
  const version = packageVersionAbove(folder);
  if (version !== null) return version;
  throw new CodedError(
    'skill/not-compliant',
    `${entry} takes its version from a package.json (resolveVersion), and none above it has a version`,
  );
}

async function writeProgram(
  { definition: { name }, entry, modules }: LoadedSource,
  mode: BuildMode,
  folder: string,
  interrupted: AbortSignal,
): Promise<void> {
  for (const part of ['bin', 'scripts']) mkdirSync(join(folder, part), { recursive: true });
  const program = programOf(entry, mode.kind === 'node' ? 'above-script' : 'above-executable', modules);
  const script =
    mode.kind === 'node'
      ? await writeForNode(name, entry, program, folder)
      : await compileForBun(name, entry, program, { ...mode, interrupted }, folder);
  const run = join(folder, 'scripts', 'run');
  writeFileSync(run, script);
  chmodSync(run, 0o755);
}

/** Keeps names of functions and classes, because errors of libraries contain them. */
const MINIFIED: NonNullable<BundleOptions['output']> = {
  minify: { compress: true, mangle: { keepNames: true }, codegen: true },
  comments: { legal: true },
};

async function writeForNode(name: string, entry: string, program: Program, folder: string): Promise<string> {
  const { files } = await bundleProgram(entry, name, program, MINIFIED);
  for (const file of files) writeFileSync(join(folder, 'bin', file.name), file.code);
  return nodeScript(name, files[0]!.name);
}

async function compileForBun(
  name: string,
  entry: string,
  program: Program,
  how: Pick<Compilation, 'bun' | 'targets' | 'interrupted'>,
  folder: string,
): Promise<string> {
  const { code } = await bundle(entry, { program, output: MINIFIED });
  const file = join(folder, 'bin', `${name}.mjs`);
  writeFileSync(file, code);
  await compileAll({ ...how, code: file, executableOf: (target) => join(folder, 'bin', `${name}-${target}`) });
  rmSync(file);
  return executableScript(name, how.targets);
}

function copyShipped(from: string, names: readonly string[], to: string): void {
  for (const path of names.map((name) => join(from, name)).filter((one) => existsSync(one))) {
    if (!statSync(path).isDirectory()) throw new CodedError('skill/unusable', `${path} is not a folder`);
    copyTree(path, join(to, basename(path)));
  }
}

/** Those of any build of this skill, so that what is built no more does not stay. */
function ownPaths(name: string, shipped: readonly string[]): (path: string) => boolean {
  const own = new Set([
    'SKILL.md',
    'package.json',
    'scripts/run',
    ...BUN_TARGETS.map((one) => `bin/${name}-${one}`),
    ...shipped,
  ]);
  const code = new RegExp(`^bin/${name}(?:\\.part-[\\w-]{8})?\\.[cm]js$`);
  return (path) => own.has(path) || code.test(path);
}

function needsOf(mode: BuildMode): string {
  return mode.kind === 'node'
    ? `Needs Node.js ${LEAST_NODE} or newer on the PATH.`
    : `Runs on ${mode.targets.join(', ')}.`;
}

function notesOn(definition: Buildable): readonly string[] {
  const fields = hostFieldNames(definition);
  return fields.length === 0
    ? []
    : [`SKILL.md has ${fields.join(', ')}, which agentskills.io does not define: strict hosts may refuse the skill`];
}

/** Warns about a shell in the replaced folder, which would see an empty folder. */
function notesOnPlace(target: string, cwd: string): readonly string[] {
  const isInside = cwd === target || cwd.startsWith(target + sep);
  return isInside ? ['the folder that you are in has been replaced: `cd "$PWD"` leads to the new one'] : [];
}

function readBuilderVersion(): string {
  const { name, version } = JSON.parse(readFileSync(join(findPackageRoot(), 'package.json'), 'utf8')) as {
    readonly name: string;
    readonly version: string;
  };
  return `${name} ${version}`;
}
