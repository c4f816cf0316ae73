/**
 * The keeper, the guest agent, the mock agent and `voidbox-vmm`, compiled from the package's own sources as static
 * binaries, and the module that Node loads.
 */
import { existsSync, readFileSync } from 'node:fs';
import { copyFile, mkdir } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { type CacheFolder, ensureCacheFolder, findCacheFolder, hashInputs } from '../cache/cache.ts';
import { withFileLock } from '../file-lock.mjs';
import { listRegularFilesBelow } from '../cache/files-below.ts';
import { findOnPath, isExecutable } from './find-program.ts';
import { reportWhile } from '../long-work.ts';
import type { FoundPiece, SetupContext } from './piece.ts';
import { cutToLastLines, runProgram } from './run-program.ts';
import { findCargo } from './rust-toolchain.ts';
import { SetupError } from '../setup-error.ts';

export const KEEPER_BINARY = 'voidbox-vm';
export const AGENT_BINARY = 'voidbox-agent';
/** The file is next to the agent's, because one build makes all. */
export const MOCK_AGENT_BINARY = 'voidbox-mock-agent';
export const VMM_BINARY = 'voidbox-vmm';
/** `process.dlopen` loads it by any name, but `require` only by this ending. */
export const BINDING_FILE = 'voidbox-binding.node';

/** Binaries that one run of the compiler makes. */
interface RustBuild {
  /** Names the folder in the cache. */
  readonly piece: string;
  /** For messages. */
  readonly what: string;
  readonly binaries: readonly string[];
  /** The shared library that is the only product instead of binaries, and its name in the cache. */
  readonly library?: { readonly from: string; readonly to: string };
  readonly sourceFolders: readonly string[];
  readonly crates: readonly string[];
}

const RUN_BUILD: RustBuild = {
  piece: 'binaries',
  what: 'the keeper and the guest agent',
  binaries: [KEEPER_BINARY, AGENT_BINARY, MOCK_AGENT_BINARY],
  sourceFolders: [
    'guest/protocol',
    'guest/agent',
    'guest/mock-agent',
    'native/jail',
    'native/run-dir',
    'native/keeper',
  ],
  crates: [
    'voidbox-protocol',
    'voidbox-agent',
    'voidbox-mock-agent',
    'voidbox-jail',
    'voidbox-run-dir',
    'voidbox-keeper',
  ],
};
/** It is apart, because its crates take a minute to compile, and few hosts run it. */
const VMM_BUILD: RustBuild = {
  piece: 'vmm',
  what: VMM_BINARY,
  binaries: [VMM_BINARY, 'voidbox-folders'],
  sourceFolders: ['native/folders', 'native/jail', 'native/vmm'],
  crates: ['voidbox-folders', 'voidbox-jail', VMM_BINARY],
};
/** It is apart, because the package runs without it. */
const BINDING_BUILD: RustBuild = {
  piece: 'binding',
  what: 'the binding for Node',
  binaries: [],
  library: { from: 'libvoidbox_binding.so', to: BINDING_FILE },
  sourceFolders: ['native/run-dir', 'native/binding'],
  crates: ['voidbox-run-dir', 'voidbox-binding'],
};
const SOURCE_FILES = ['Cargo.toml', 'Cargo.lock'];
const MUSL_TARGET = 'x86_64-unknown-linux-musl';
const GNU_TARGET = 'x86_64-unknown-linux-gnu';
const BUILD_TIMEOUT_MS = 1_200_000;

/** Lists every file from which the keeper and the agents are compiled, without tests and benches. */
export function rustSources(packageRoot: string): string[] {
  return listSources(packageRoot, RUN_BUILD);
}

function listSources(packageRoot: string, { sourceFolders }: RustBuild): string[] {
  const files = SOURCE_FILES.map((name) => join(packageRoot, name)).filter((file) => existsSync(file));
  for (const folder of sourceFolders) {
    const root = join(packageRoot, folder);
    if (!existsSync(root)) continue;
    const paths = listRegularFilesBelow(root).filter(
      (path) => /\.(?:rs|txt)$|Cargo\.toml$/.test(path) && !/^(?:tests|target|benches|examples)\//.test(path),
    );
    files.push(...paths.map((path) => join(root, path)));
  }
  return files.sort();
}

function sourcesHash(packageRoot: string, build: RustBuild): string {
  return hashInputs(
    listSources(packageRoot, build).flatMap((file) => [relative(packageRoot, file), readFileSync(file)]),
  );
}

export function binariesFolder(context: SetupContext): CacheFolder {
  return describeFolder(context, RUN_BUILD);
}

export function describeVmmFolder(context: SetupContext): CacheFolder {
  return describeFolder(context, VMM_BUILD);
}

export function describeBindingFolder(context: SetupContext): CacheFolder {
  return describeFolder(context, BINDING_BUILD);
}

function describeFolder({ env, packageRoot }: SetupContext, build: RustBuild): CacheFolder {
  return { cacheDir: env.cacheDir, piece: build.piece, hash: sourcesHash(packageRoot, build) };
}

function chooseBuild(binary: string): RustBuild {
  if (binary === BINDING_FILE) return BINDING_BUILD;
  return binary === VMM_BINARY ? VMM_BUILD : RUN_BUILD;
}

export async function findBinary(context: SetupContext, binary: string): Promise<FoundPiece | null> {
  const folder = findCacheFolder(describeFolder(context, chooseBuild(binary)));
  if (folder === null) return null;
  const path = join(folder, binary);
  const isUsable = binary === BINDING_FILE ? existsSync(path) : isExecutable(path);
  return isUsable ? { path, version: versionOf(context.packageRoot), from: 'cache' } : null;
}

export async function getBinary(context: SetupContext, binary: string): Promise<FoundPiece> {
  const wanted = chooseBuild(binary);
  const folder = await ensureCacheFolder(
    describeFolder(context, wanted),
    (into) => build(context, wanted, into),
    () => context.progress(`waiting for another set-up to compile ${wanted.what}`),
  );
  return { path: join(folder, binary), version: versionOf(context.packageRoot), from: 'cache' };
}

function versionOf(packageRoot: string): string {
  return /^version = "(.+)"$/m.exec(readFileSync(join(packageRoot, 'Cargo.toml'), 'utf8'))?.[1] ?? 'unknown';
}

async function build(context: SetupContext, wanted: RustBuild, into: string): Promise<void> {
  const { what, crates } = wanted;
  const { path: cargo } = await findCargo(context);
  // The compiler is next to cargo, even if that folder is not on PATH.
  const path = `${dirname(cargo)}:${context.env.path}`;
  // Node loads the library into its process, so it has the C library of Node.
  const target = wanted.library === undefined ? await chooseTarget(context, path) : { name: GNU_TARGET, flags: '' };
  context.progress(`compiling ${what} (cargo build --release, ${target.name})`);
  const targetDir = join(context.env.cacheDir, 'cargo-target');
  // All versions share one target folder, so that dependencies are compiled once; the lock covers all work in it.
  await withFileLock(
    join(context.env.cacheDir, 'locks', 'cargo-target.lock'),
    async () => {
      const cargoIn = (args: readonly string[]): ReturnType<typeof runProgram> =>
        runProgram(context.env, cargo, [...args, '--release', '--locked', '--target', target.name], {
          cwd: context.packageRoot,
          timeoutMs: BUILD_TIMEOUT_MS,
          variables: { PATH: path, CARGO_TARGET_DIR: targetDir, RUSTFLAGS: target.flags, CARGO_TERM_COLOR: 'never' },
        });
      await mkdir(targetDir, { recursive: true, mode: 0o700 });
      // Cargo compares times of files. Those of another checkout may be newer, and those of an installed package are
      // all the same.
      const packages = crates.flatMap((name) => ['-p', name]);
      await cargoIn(['clean', ...packages]);
      // Without names of packages, cargo downloads what the others of the workspace need too.
      const compiling = cargoIn(['build', ...packages, ...listProducts(wanted)]);
      const result = await reportWhile(context.progress, `compiling ${what}`, compiling);
      if (result.exitCode !== 0)
        throw new SetupError(
          `Cargo can't compile ${what}:\n${cutToLastLines(result, 40)}`,
          'Fix the cargo errors above and retry.',
        );
      for (const [from, to] of listFiles(wanted))
        await copyFile(join(targetDir, target.name, 'release', from), join(into, to));
    },
    () => context.progress(`waiting for another set-up to compile ${what}`),
  );
}

function listProducts({ binaries, library }: RustBuild): string[] {
  return library === undefined ? binaries.flatMap((name) => ['--bin', name]) : ['--lib'];
}

/** Lists the files of a build: the name that cargo gives, and the name in the cache. */
function listFiles({ binaries, library }: RustBuild): readonly (readonly [from: string, to: string])[] {
  return library === undefined ? binaries.map((name) => [name, name] as const) : [[library.from, library.to]];
}

interface BuildTarget {
  readonly name: string;
  readonly flags: string;
}

/**
 * Chooses musl if the toolchain has it or can fetch it, otherwise the host's C library, linked statically; both make
 * static binaries.
 */
async function chooseTarget(context: SetupContext, path: string): Promise<BuildTarget> {
  const musl: BuildTarget = { name: MUSL_TARGET, flags: '' };
  if (await hasTarget(context, path, MUSL_TARGET)) return musl;
  if (findOnPath({ ...context.env, path }, ['rustup']).length > 0) {
    context.progress(`adding the Rust target ${MUSL_TARGET}`);
    await runProgram(context.env, 'rustup', ['target', 'add', MUSL_TARGET], {
      timeoutMs: BUILD_TIMEOUT_MS,
      cwd: context.packageRoot,
      variables: { PATH: path },
    });
    if (await hasTarget(context, path, MUSL_TARGET)) return musl;
  }
  return { name: GNU_TARGET, flags: '-C target-feature=+crt-static -C relocation-model=static' };
}

async function hasTarget(context: SetupContext, path: string, target: string): Promise<boolean> {
  const result = await runProgram(context.env, 'rustc', ['--print', 'target-libdir', '--target', target], {
    cwd: context.packageRoot,
    variables: { PATH: path },
  });
  return result.exitCode === 0 && existsSync(result.stdout.trim());
}
