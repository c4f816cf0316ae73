/** Makes the root disk of `image: dev` from Debian packages, without root and without changing this machine. */
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hasApt } from '../pieces/apt.ts';
import { type CacheFolder, ensureCacheFolder, findCacheFolder, hashInputs } from '../cache/cache.ts';
import { findOnPath } from '../pieces/find-program.ts';
import { reportWhile } from '../long-work.ts';
import type { FoundPiece, Piece, SetupContext } from '../pieces/piece.ts';
import { SetupError } from '../setup-error.ts';
import {
  checkAgainstLock,
  DEBIAN_KEYRING,
  downloadPackages,
  type LockedPackage,
  findMissingPackages,
  openPackageSource,
  packageFile,
  type PackageLock,
  type PackageSource,
  parseLock,
  parsePackageList,
  resolvePackages,
} from './debian-packages.ts';
import { EXT4_PROGRAMS, makeExt4 } from './ext4.ts';
import { makeRootTree } from './root-tree.ts';

const PIECE = 'dev';
const ROOM_MIB = 1_200;
/** Part of the cache key. It must grow whenever the same packages produce another disk. */
const RECIPE = '2';
const DISK = 'root.ext4';
const RECORD = 'image.json';

/** The packages of a disk, stored in the same folder. */
interface DiskRecord extends PackageLock {
  /** False if the mirror lacked packages of the lock, or if a user adds packages. */
  readonly isLocked: boolean;
}

/** The packages of the disk. */
interface Recipe {
  readonly names: readonly string[];
  /** The packages that the user adds. */
  readonly added: readonly string[];
  readonly lock: PackageLock;
  readonly hash: string;
}

export const devDisk: Piece = {
  name: 'dev',
  purpose: 'the root disk of `image: dev`: bash, git, node, python3 and more',
  variable: null,
  packages: null,
  isLocal: false,
  needs: ['mke2fs', 'bwrap'],
  roomMib: ROOM_MIB,
  folder: (context) => cacheFolder(context, readRecipe(context)),
  blocker: (context) => Promise.resolve(devDiskBlocker(context)),
  find: (context) => Promise.resolve(findDisk(context)),
  get: getDisk,
};

function readRecipe(context: SetupContext): Recipe {
  const folder = join(context.packageRoot, 'guest', 'dev-image');
  const list = readFileSync(join(folder, 'packages.txt'), 'utf8');
  const lock = parseLock(readFileSync(join(folder, 'lock.json'), 'utf8'));
  const { devPackagesFile } = context.env;
  const own = existsSync(devPackagesFile)
    ? parsePackageList(readFileSync(devPackagesFile, 'utf8'), devPackagesFile)
    : [];
  const names = parsePackageList(list, 'packages.txt');
  const added = own.filter((name) => !names.includes(name));
  return {
    names,
    added,
    lock,
    hash: hashInputs([RECIPE, JSON.stringify(lock), ...names, '', ...added.sort()]),
  };
}

function cacheFolder(context: SetupContext, { hash }: Recipe): CacheFolder {
  return { cacheDir: context.env.cacheDir, piece: PIECE, hash, roomMib: ROOM_MIB, main: DISK };
}

function findDisk(context: SetupContext): FoundPiece | null {
  const folder = findCacheFolder(cacheFolder(context, readRecipe(context)));
  return folder === null ? null : describe(folder);
}

function describe(folder: string): FoundPiece {
  const { suite, packages, isLocked } = JSON.parse(readFileSync(join(folder, RECORD), 'utf8')) as DiskRecord;
  const version = `Debian ${suite}, ${packages.length} packages${isLocked ? '' : ', not those of the lock'}`;
  return { path: join(folder, DISK), version, from: 'cache' };
}

function devDiskBlocker(context: SetupContext): SetupError | null {
  const { env, system } = context;
  if (!hasApt(context))
    return new SetupError(
      `${system.name} has no apt, with which the dev image is made of Debian packages.`,
      'Make it on Debian or Ubuntu, and copy its folder dev-… from the cache folder there.',
    );
  if (!existsSync(DEBIAN_KEYRING))
    return new SetupError(
      `There is no ${DEBIAN_KEYRING}, which the packages of the dev image are checked with.`,
      'sudo apt-get install -y debian-archive-keyring',
    );
  const missing = ['tar', 'bash', ...EXT4_PROGRAMS].filter((name) => findOnPath(env, [name]).length === 0);
  return missing.length === 0
    ? null
    : new SetupError(
        `There is no ${missing.join(', ')} on PATH, which the dev image is made with.`,
        'sudo apt-get install -y tar bash e2fsprogs',
      );
}

async function getDisk(context: SetupContext): Promise<FoundPiece> {
  const blocker = devDiskBlocker(context);
  if (blocker !== null) throw blocker;
  const recipe = readRecipe(context);
  const folder = await ensureCacheFolder(
    cacheFolder(context, recipe),
    async (into) => {
      const packages = join(into, 'packages');
      const found = await fetchDevPackages(context, recipe, { index: join(into, 'index'), packages });
      await makeDevDisk(context, found.packages, packages, into);
      await writeFile(join(into, RECORD), `${JSON.stringify(found)}\n`);
      for (const name of ['index', 'packages']) await rm(join(into, name), { recursive: true });
    },
    () => context.progress('waiting for another set-up to make the dev image'),
  );
  return describe(folder);
}

/**
 * Fetches the packages of the lock if the mirror has all of them; otherwise, and with packages of the user, resolves
 * all of them again.
 */
async function fetchDevPackages(
  context: SetupContext,
  recipe: Recipe,
  folders: { readonly index: string; readonly packages: string },
): Promise<DiskRecord> {
  const source = await openPackageSource(context, folders.index);
  if (recipe.added.length > 0)
    context.progress(`resolving the packages of the dev image with yours: ${recipe.added.join(', ')}`);
  const isLocked = recipe.added.length === 0 && (await hasAllLocked(context, source, recipe.lock));
  const wanted = isLocked
    ? recipe.lock.packages.map(({ name, version }) => `${name}=${version}`)
    : await resolvePackages(context, source, [...recipe.names, ...recipe.added]);
  const packages = await downloadPackages(context, source, wanted, folders.packages);
  if (isLocked) checkAgainstLock(packages, recipe.lock);
  return { suite: source.suite, packages, isLocked };
}

async function hasAllLocked(context: SetupContext, source: PackageSource, lock: PackageLock): Promise<boolean> {
  const missing = await findMissingPackages(context, source, lock);
  if (missing.length === 0) return true;
  const named = missing.slice(0, 3).join(', ');
  context.progress(
    source.suite === lock.suite
      ? `the mirror has no more ${named}${missing.length > 3 ? ` and ${missing.length - 3} others` : ''}: all packages of the dev image are resolved again`
      : `the mirror has no Debian ${lock.suite}: the dev image uses packages of ${source.suite}`,
  );
  return false;
}

/** Makes the disk in `into` from downloaded packages. */
export async function makeDevDisk(
  context: SetupContext,
  packages: readonly LockedPackage[],
  packagesFolder: string,
  into: string,
): Promise<void> {
  const files = packages.map(({ name, version }) => packageFile(packagesFolder, name, version)!);
  const tree = join(into, 'tree');
  await mkdir(tree, { mode: 0o755 });
  context.progress(`unpacking ${files.length} packages for the dev image`);
  await reportWhile(context.progress, 'unpacking the dev image', makeRootTree(context, files, tree));
  context.progress('making the disk of the dev image');
  await makeExt4(context, tree, join(into, DISK));
  await rm(join(into, `${DISK}.commands`));
  await rm(tree, { recursive: true });
}

/** Locks the packages to the versions that the mirror has today. */
export async function lockDevPackages(context: SetupContext, folder: string): Promise<PackageLock> {
  const folders = { index: join(folder, 'index'), packages: join(folder, 'packages') };
  const source = await openPackageSource(context, folders.index);
  const names = parsePackageList(
    readFileSync(join(context.packageRoot, 'guest', 'dev-image', 'packages.txt'), 'utf8'),
    'packages.txt',
  );
  const wanted = await resolvePackages(context, source, names);
  return { suite: source.suite, packages: await downloadPackages(context, source, wanted, folders.packages) };
}
