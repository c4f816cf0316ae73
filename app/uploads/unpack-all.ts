/** Unpacks all uploads of one start: tars as folders, and bundles as bare repositories. */
import { chmod, mkdir } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { BUNDLE_BYTES } from '../../git/base-bundle.ts';
import { openScratch } from '../../git/private-repository.ts';
import { GitError } from '../../git/run-git.ts';
import { RefusedBundle, unpackBundle } from '../../git/unpack-bundle.ts';
import type { HeldUpload, UploadStore } from '../../store/uploads.ts';
import { AppError, createEnvironmentError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { createFairGate } from './create-gate.ts';
import type { PlacedUpload, UploadPlaces } from './place-uploads.ts';
import {
  createUnpackTotal,
  FOLDER_MODE,
  UNPACK_LIMITS,
  type UnpackLimits,
  type UnpackTotal,
  unpackUpload,
} from './unpack-upload.ts';

export interface UnpackTools {
  readonly uploads: UploadStore;
  /** The limits of all uploads of the start together; other limits are for tests. */
  readonly startLimits?: UnpackLimits;
  /** The time for all uploads of the start; another one is for tests. */
  readonly unpackMs?: number;
}

/** Each start holds a descriptor of each upload and of each folder on the way to a file. */
const MOST_UNPACKING = 4;
const unpackInTurn = createFairGate(MOST_UNPACKING);
/** The time for all uploads of one start: git has minutes for each step of a bundle. */
export const UNPACK_MS = 5 * 60_000;

/**
 * @param sender  names the token, or the owner: each unpacks one start at a time
 * @param folder  the folder of the start
 * @throws AppError `api/no-blob`, `api/upload-refused`, `host/not-ready`; CodedError `host/disk-full`
 */
export async function unpackAll(
  sender: string,
  folder: string,
  places: UploadPlaces,
  tools: UnpackTools,
  machine: Machine,
): Promise<void> {
  await unpackInTurn(sender, () => unpackHeld(folder, places, tools, machine));
}

/** Opens each upload before the first is unpacked: none of them is deleted in the meantime. */
async function unpackHeld(
  folder: string,
  { uploads, bundles = [] }: UploadPlaces,
  { uploads: store, startLimits, unpackMs = UNPACK_MS }: UnpackTools,
  { env }: Machine,
): Promise<void> {
  const held = new Map<string, HeldUpload>();
  try {
    await holdAll(new Set([...uploads, ...bundles].map(({ sha256 }) => sha256)), held, store);
    const total = createUnpackTotal(startLimits);
    const signal = AbortSignal.timeout(unpackMs);
    // The first ones, so that no upload of the whole folder has put something in their place.
    for (const bundle of bundles) {
      const upload = held.get(bundle.sha256)!;
      takeBytes(total, upload.sizeBytes, bundle.key);
      store.requireRoom();
      await makeFolders(folder, dirname(bundle.target));
      await unpackRepository(bundle, upload, env, signal);
    }
    for (const { key, sha256, target } of uploads) {
      await makeFolders(folder, target);
      await unpackUpload(endLate(held.get(sha256)!.bytes(), key, signal), {
        folder: target,
        key,
        limits: UNPACK_LIMITS,
        total,
        requireRoom: () => store.requireRoom(),
      });
    }
  } finally {
    for (const each of held.values()) await each.close();
  }
}

/** @throws AppError `api/no-blob` */
async function holdAll(hashes: ReadonlySet<string>, held: Map<string, HeldUpload>, store: UploadStore): Promise<void> {
  const missing: string[] = [];
  for (const sha256 of hashes) {
    const found = await store.hold(sha256);
    if (found === null) missing.push(sha256);
    else held.set(sha256, found);
  }
  if (missing.length > 0) throw new AppError('usage', 'api/no-blob', `there is no upload ${missing.join(', ')}`);
}

/** Makes the folder of an upload, and the folders above it. */
async function makeFolders(folder: string, target: string): Promise<void> {
  let at = folder;
  for (const name of relative(folder, target)
    .split('/')
    .filter((part) => part !== '')) {
    at = join(at, name);
    await mkdir(at, { recursive: true });
    await chmod(at, FOLDER_MODE);
  }
}

/** A bundle counts with its size: git stores its pack as it is. */
function takeBytes(total: UnpackTotal, sizeBytes: number, key: string): void {
  total.bytes += sizeBytes;
  if (total.bytes <= total.limits.bytes) return;
  throw createBundleRefusal(key, `all uploads of the request have more than ${total.limits.bytes} bytes`);
}

/** Yields the bytes of an upload until the time of its start has passed. @throws AppError `api/upload-refused` */
async function* endLate(
  bytes: AsyncIterable<Uint8Array>,
  key: string,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const chunk of bytes) {
    if (signal.aborted) throw createLateRefusal(key);
    yield chunk;
  }
}

function createLateRefusal(key: string): AppError {
  return new AppError(
    'usage',
    'api/upload-refused',
    `the upload for \`${sanitizeLine(key.slice(0, 200))}\` is not unpacked within the time of the start, ${UNPACK_MS / 60_000} minutes`,
    'Send fewer or smaller files and repositories.',
  );
}

async function unpackRepository(
  { key, target }: PlacedUpload,
  upload: HeldUpload,
  env: Machine['env'],
  signal: AbortSignal,
): Promise<void> {
  if (upload.sizeBytes > BUNDLE_BYTES) throw createBundleRefusal(key, `it has more than ${BUNDLE_BYTES} bytes`);
  const scratch = join(env.stateDir, 'git');
  openScratch(scratch);
  try {
    await unpackBundle({ path: env.path, home: null, scratch, signal }, upload.bytes(), target);
  } catch (error) {
    if (signal.aborted) throw createLateRefusal(key);
    if (error instanceof RefusedBundle) throw createBundleRefusal(key, sanitizeLine(error.message));
    if (!(error instanceof GitError)) throw error;
    throw error.reason === 'missing'
      ? createEnvironmentError(
          'host/not-ready',
          'the service finds no program `git` on its PATH',
          'Install git on the machine of the service.',
        )
      : createEnvironmentError('host/disk-full', sanitizeLine(error.message), 'Free space on that disk.');
  }
}

function createBundleRefusal(key: string, why: string): AppError {
  return new AppError(
    'usage',
    'api/upload-refused',
    `the bundle for \`${sanitizeLine(key.slice(0, 200))}\`: ${why}`,
    'Make it with `voidbox run`, or: git bundle create FILE refs/voidbox/commit refs/voidbox/base',
  );
}
