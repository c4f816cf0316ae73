/** The pieces that VMs need, for a worker that was started without them: runs without VMs never ask. */
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Environment } from '../../setup/environment.ts';
import type { FindRootDisk, FindVmExtra } from '../../sandbox/micro-vm/backend.ts';
import type { HostPieces } from '../../setup/pieces/host-pieces.ts';
import { findImageDisk, findImageDiskDamage } from '../../setup/images/image-disk.ts';
import { resolveHostPieces, resolveOptionalPieces, SetupError } from '../../setup/resolve.ts';

/**
 * Looks the pieces up at the first call and keeps them; a failure is not kept. It installs nothing, because `voidbox
 * run` has done that. The function's promise rejects with CodedError `host/not-ready` if a piece is missing.
 */
export function lazyPieces(env: Environment): () => Promise<HostPieces> {
  let found: Promise<HostPieces> | null = null;
  return () => {
    found ??= resolveHostPieces(env, { install: false }).catch((error: unknown) => {
      found = null;
      return throwNotReady(error);
    });
    return found;
  };
}

/**
 * Like `lazyPieces`, for pieces that only some VMs need. Each launch asks, and a piece is found by a hash of its sources.
 * @param resolve  replaced by tests
 */
export function lazyExtras(env: Environment, resolve = resolveOptionalPieces): FindVmExtra {
  const found = new Map<string, Promise<string>>();
  return (name) => {
    const known = found.get(name);
    if (known !== undefined) return known;
    const path = resolve(env, [name], { install: false }).then(
      (paths) => paths.get(name)!,
      (error: unknown) => {
        found.delete(name);
        return throwNotReady(error);
      },
    );
    found.set(name, path);
    return path;
  };
}

/** Finds disks in this host's cache. A plan names a disk by its hash, so it can select no other file. */
export function imageDisks(env: Environment): FindRootDisk {
  return async (sha256) => {
    const found = await findImageDisk(env, sha256);
    if (found !== null) return found;
    const damage = findImageDiskDamage(env, sha256);
    const why =
      damage === null ? 'is not in the cache of this host' : `is damaged, ${damage}, in the cache of this host`;
    throw new CodedError(
      'host/not-ready',
      `the image ${sha256} of the plan ${why}, ${env.cacheDir}: \`voidbox run\` of the spec makes it there, and on a host of a worker \`voidbox worker --images PATH\``,
    );
  };
}

function throwNotReady(error: unknown): never {
  if (!(error instanceof SetupError)) throw error;
  const message = error.remedy === null ? error.message : `${error.message} ${error.remedy}`;
  throw new CodedError('host/not-ready', message, { cause: error });
}
