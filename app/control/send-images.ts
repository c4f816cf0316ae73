/** Sends the images of paths that a plan names to a service on another machine, which makes their disks. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { createHash } from 'node:crypto';
import { contains } from '../../domain/language/text/paths.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { formatBytes } from '../../domain/units/bytes.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import type { KnownImage } from '../../setup/images/images.ts';
import { endMarker, paddingBytes, writeHeader } from '../../tar/entry.ts';
import { AppError } from '../app-error.ts';
import { PACK_LIMITS } from './pack-folder.ts';
import { type MeasuredBlob, sendBlob, sendFolders, type SendTools } from './send-uploads.ts';

const FILE_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const READ_BYTES = 1024 * 1024;
/** An upload is a folder, so an image of one file is a folder with this file. */
const FILE_NAME = 'image.tar';

export interface SentImages {
  /** The plan with paths of images instead of the hashes of their disks. */
  readonly plan: Plan;
  /** The hashes of uploads, by their paths in the plan. */
  readonly uploads: Readonly<Record<string, string>>;
}

/**
 * Sends tars and OCI layouts. An image within a folder that is sent needs no upload of its own.
 * @param folders  the folders that the start sends
 * @throws AppError, ServiceError
 */
export async function sendImages(
  plan: Plan,
  images: readonly KnownImage[],
  folders: readonly string[],
  tools: SendTools,
): Promise<SentImages> {
  const paths = new Map<string, string>();
  const uploads = createMapping<string>();
  for (const { sha256, path, kind } of images) {
    const isSent = folders.some((folder) => contains(folder, path));
    paths.set(sha256, isSent || kind !== 'tar' ? path : join(path, FILE_NAME));
    if (isSent) continue;
    if (kind === 'tar') uploads[path] = await sendBlob(path, () => measureFile(path), tools);
    else Object.assign(uploads, await sendFolders([path], tools));
  }
  return { plan: nameImages(plan, paths), uploads };
}

/** The service finds the disk of the image by its path, as this machine did. */
function nameImages(plan: Plan, paths: ReadonlyMap<string, string>): Plan {
  return {
    ...plan,
    scopes: plan.scopes.map((scope) => {
      const { image, ...sandbox } = scope.sandbox;
      const path = image?.kind === 'disk' ? paths.get(image.sha256) : undefined;
      return path === undefined
        ? scope
        : { ...scope, sandbox: { ...sandbox, needs: { ...sandbox.needs, image: path } } };
    }),
  };
}

async function measureFile(path: string): Promise<MeasuredBlob> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const piece of generateFileTar(path)) {
    hash.update(piece);
    sizeBytes += piece.byteLength;
  }
  return { sha256: hash.digest('hex'), sizeBytes, open: () => generateFileTar(path) };
}

async function* generateFileTar(path: string): AsyncGenerator<Uint8Array> {
  const file = await open(path, FILE_FLAGS);
  try {
    const { size } = await file.stat();
    if (size > PACK_LIMITS.bytes)
      throw createRefusal(path, `it has ${formatBytes(size)}, and at most ${formatBytes(PACK_LIMITS.bytes)} are sent`);
    yield writeHeader({ path: FILE_NAME, typeFlag: '0', mode: 0o644, sizeBytes: size, names: 'latin1' });
    for (let left = size; left > 0;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(Math.min(left, READ_BYTES)), 0, undefined, null);
      if (bytesRead === 0) throw createRefusal(path, 'it became shorter while it was read');
      yield buffer.subarray(0, bytesRead);
      left -= bytesRead;
    }
    yield Buffer.alloc(paddingBytes(size));
    yield endMarker();
  } finally {
    await file.close();
  }
}

function createRefusal(path: string, why: string): AppError {
  return new AppError(
    'usage',
    'cli/not-remote',
    `the image ${sanitizeLine(path)} cannot be sent to the service: ${why}`,
    'Use a smaller image, or start the spec on the machine of the service.',
  );
}
