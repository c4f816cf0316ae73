/** Voidbox's own guest kernel: a small configuration that is compiled once, and then preferred by every run. */
import { existsSync, readFileSync } from 'node:fs';
import { copyFile, readdir, rm, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { hasApt, isRoot, searchPackages, unpackPackage } from './apt.ts';
import { type CacheFolder, ensureCacheFolder, findCacheFolder, hashInputs } from '../cache/cache.ts';
import { installNamed } from './distribution-packages.ts';
import { findOnPath } from './find-program.ts';
import { installLine } from '../machine/host-system.ts';
import { reportWhile } from '../long-work.ts';
import type { FoundPiece, SetupContext } from './piece.ts';
import { cutToLastLines, runProgram } from './run-program.ts';
import { SetupError } from '../setup-error.ts';
import { writeUncompressed } from './uncompressed-kernel.ts';

export const VOIDBOX_KERNEL_PIECE = 'kernel-voidbox';
/** Part of the cache key. It must grow whenever the same configuration produces another kernel. */
const RECIPE = '2';
/** A busy machine with two cores has compiled two thirds of the kernel in an hour. A build that is ended starts again. */
const BUILD_TIMEOUT_MS = 6 * 3_600_000;
const SOURCE_PACKAGES = ['linux-source-6.12', 'linux-source-6.1'];
/** Programs that a build of the kernel runs, and their Debian packages. */
const BUILD_PROGRAMS: Readonly<Record<string, string>> = {
  make: 'make',
  gcc: 'gcc',
  ld: 'binutils',
  flex: 'flex',
  bison: 'bison',
  bc: 'bc',
  perl: 'perl',
  tar: 'tar',
  xz: 'xz-utils',
};
const BUILD_HEADERS: Readonly<Record<string, string>> = {
  '/usr/include/gelf.h': 'libelf-dev',
  '/usr/include/stdio.h': 'libc6-dev',
};

interface KernelRecord {
  readonly version: string;
  readonly source: string;
}

function configPath(context: SetupContext): string {
  return join(context.packageRoot, 'guest', 'kernel', 'voidbox.config');
}

function cacheFolder(context: SetupContext): CacheFolder {
  return {
    cacheDir: context.env.cacheDir,
    piece: VOIDBOX_KERNEL_PIECE,
    hash: hashInputs([RECIPE, readFileSync(configPath(context))]),
  };
}

export function findVoidboxKernel(context: SetupContext): Promise<FoundPiece | null> {
  const folder = findCacheFolder(cacheFolder(context));
  if (folder === null) return Promise.resolve(null);
  const record = JSON.parse(readFileSync(join(folder, 'kernel.json'), 'utf8')) as KernelRecord;
  return Promise.resolve({ path: join(folder, 'vmlinuz'), version: record.version, from: 'cache' });
}

/** Compiles the kernel from the named source tree, or else from Debian's source package. */
export async function buildVoidboxKernel(context: SetupContext, sourceTree: string | null): Promise<FoundPiece> {
  await ensureBuildTools(context);
  const folder = await ensureCacheFolder(
    cacheFolder(context),
    async (into) => {
      const work = join(into, 'work');
      const source = sourceTree ?? (await unpackDebianSource(context, work));
      const release = await compile(context, source, join(work, 'build'), into);
      const record: KernelRecord = { version: release, source: sourceTree === null ? 'Debian' : 'given' };
      await writeFile(join(into, 'kernel.json'), `${JSON.stringify(record)}\n`);
      await rm(work, { recursive: true, force: true });
    },
    () => context.progress('waiting for another build of the guest kernel'),
  );
  const record = JSON.parse(readFileSync(join(folder, 'kernel.json'), 'utf8')) as KernelRecord;
  return { path: join(folder, 'vmlinuz'), version: record.version, from: 'cache' };
}

async function ensureBuildTools(context: SetupContext): Promise<void> {
  const lacking = findLackingBuildTools(context);
  if (lacking.packages.length === 0) return;
  const line =
    context.system.distribution === 'debian' ? installLine(context.system, lacking.packages, isRoot()) : null;
  const missing = new SetupError(
    `This machine lacks ${lacking.names}, which the build of the guest kernel needs.`,
    line ?? `Install ${lacking.names} with the package manager of ${context.system.name}.`,
  );
  if (context.system.distribution !== 'debian') throw missing;
  await installNamed(context, lacking.packages, missing);
  if (findLackingBuildTools(context).packages.length > 0) throw missing;
}

function findLackingBuildTools(context: SetupContext): {
  readonly names: string;
  readonly packages: readonly string[];
} {
  const programs = Object.entries(BUILD_PROGRAMS).filter(
    ([program]) => findOnPath(context.env, [program]).length === 0,
  );
  const headers = Object.entries(BUILD_HEADERS).filter(([header]) => !existsSync(header));
  const lacking = [...programs, ...headers];
  return { names: lacking.map(([name]) => name).join(', '), packages: lacking.map(([, name]) => name) };
}

/** Returns the path of Debian's source tree, of the newest series in the index. */
async function unpackDebianSource(context: SetupContext, work: string): Promise<string> {
  const offered = hasApt(context) ? await searchPackages(context, '^linux-source-6\\.') : [];
  const name = SOURCE_PACKAGES.find((candidate) => offered.includes(candidate));
  if (name === undefined) {
    throw new SetupError(
      'There is no Debian package with the source of Linux 6.12 or 6.1.',
      'Unpack a Linux 6.12 source tree and name it: npm run kernel -- /path/to/linux-6.12',
    );
  }
  context.progress(`downloading ${name} (about 150 MB)`);
  const tree = join(work, 'package');
  await unpackPackage(context, name, tree);
  const archive = (await readdir(join(tree, 'usr', 'src'))).find((entry) => /^linux-source-.*\.tar\.xz$/.test(entry));
  if (archive === undefined) throw new SetupError(`The package ${name} holds no source archive.`, null);
  context.progress('unpacking the source');
  const result = await runProgram(context.env, 'tar', ['-xf', join(tree, 'usr', 'src', archive), '-C', work], {
    timeoutMs: BUILD_TIMEOUT_MS,
  });
  if (result.exitCode !== 0)
    throw new SetupError(
      `The kernel's source can't be unpacked:\n${cutToLastLines(result)}`,
      'Check the free space of the cache folder: the build needs 3 GB.',
    );
  await rm(tree, { recursive: true, force: true });
  const folder = (await readdir(work)).find((entry) => entry.startsWith('linux-source-'));
  if (folder === undefined) throw new SetupError(`The archive of ${name} holds no source tree.`, null);
  return join(work, folder);
}

/** Configures and compiles; writes `vmlinuz`, the same as `vmlinux`, and the configuration to `into`. Returns the kernel's release. */
async function compile(context: SetupContext, source: string, build: string, into: string): Promise<string> {
  const make = async (...args: string[]): Promise<string> => {
    // These variables make the build independent of its time, place and user.
    const variables = {
      KBUILD_BUILD_TIMESTAMP: 'Thu Jan  1 00:00:00 UTC 1970',
      KBUILD_BUILD_USER: 'voidbox',
      KBUILD_BUILD_HOST: 'voidbox',
    };
    const result = await runProgram(context.env, 'make', ['-s', '-C', source, `O=${build}`, ...args], {
      timeoutMs: BUILD_TIMEOUT_MS,
      variables,
    });
    if (result.exitCode !== 0)
      throw new SetupError(
        `make ${args.join(' ')} failed:\n${cutToLastLines(result, 30)}`,
        'Fix the make errors above and retry.',
      );
    return result.stdout.trim();
  };
  context.progress('configuring the kernel');
  await runProgram(context.env, 'mkdir', ['-p', build]);
  await make('tinyconfig');
  const base = readFileSync(join(build, '.config'), 'utf8');
  // If an option has two lines, the later one applies.
  await writeFile(join(build, '.config'), `${base}\n${readFileSync(configPath(context), 'utf8')}`);
  await make('olddefconfig');
  const resulting = readFileSync(join(build, '.config'), 'utf8');
  for (const line of findRefusedOptions(readFileSync(configPath(context), 'utf8'), resulting))
    context.progress(`the kernel did not take ${line}`);
  context.progress('compiling the kernel (about 9 minutes on two cores)');
  await reportWhile(context.progress, 'compiling the kernel', make(`-j${availableParallelism()}`, 'bzImage'));
  await copyFile(join(build, 'arch', 'x86', 'boot', 'bzImage'), join(into, 'vmlinuz'));
  await writeUncompressed(join(into, 'vmlinuz'));
  await copyFile(join(build, '.config'), join(into, 'config'));
  return make('kernelrelease');
}

/** Returns lines of the fragment that the resulting configuration contradicts. A disabled option may be absent. */
export function findRefusedOptions(fragment: string, resulting: string): string[] {
  const lines = new Set(resulting.split('\n'));
  return fragment.split('\n').filter((line) => {
    const match = /^(CONFIG_\w+)=(.+)$/.exec(line);
    if (match?.[1] === undefined) return false;
    return match[2] === 'n' ? lines.has(`${match[1]}=y`) || lines.has(`${match[1]}=m`) : !lines.has(line);
  });
}

/** Returns true if the cache contains Voidbox's kernel for this version's configuration. */
export async function isVoidboxKernelBuilt(context: SetupContext): Promise<boolean> {
  return (await findVoidboxKernel(context)) !== null;
}
