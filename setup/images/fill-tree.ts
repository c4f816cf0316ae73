/** Adds files of a tar or a layer to the tree; contents become blobs, numbered files in one folder of the build. */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { streamTar, type StreamedEntry } from '../../tar/stream.ts';
import { ImageError, formatPath } from './image-error.ts';
import type { ImageLimits } from './image-limits.ts';
import type { ImageTree } from './image-tree.ts';

const WHITEOUT = '.wh.';
/** Marks a folder from which everything of earlier layers is removed. */
const OPAQUE = '.wh..wh..opq';
/**
 * Folders of the guest itself, which mounts its own file systems over them: files of an image there would be hidden.
 */
export const OWN_FOLDERS: readonly string[] = ['dev', 'proc', 'run', 'sys'];

/** Writes blobs, and counts the bytes of all of them. */
export class Blobs {
  readonly folder: string;
  readonly #limits: ImageLimits;
  #next = 0;
  #bytes = 0;

  constructor(folder: string, limits: ImageLimits) {
    this.folder = folder;
    this.#limits = limits;
  }

  path(blob: number): string {
    return join(this.folder, String(blob));
  }

  async add(
    path: string,
    sizeBytes: number,
    body: AsyncIterable<Uint8Array>,
  ): Promise<{ blob: number; sizeBytes: number }> {
    this.#bytes += sizeBytes;
    if (this.#bytes > this.#limits.contentBytes)
      throw new ImageError(
        `The files of the image have more than ${this.#limits.contentBytes} bytes; ${formatPath(path)} is one too many.`,
        'Use a smaller image.',
      );
    const blob = this.#next++;
    const handle = await open(this.path(blob), 'wx', 0o600);
    try {
      for await (const chunk of body) await handle.writeFile(chunk);
    } finally {
      await handle.close();
    }
    return { blob, sizeBytes };
  }
}

export interface Layer {
  /** The number of the layer, beginning with 1. */
  readonly number: number;
  /** Whether a file `.wh.x` removes x of earlier layers. */
  readonly hasWhiteouts: boolean;
}

/** @throws ImageError, and Error for bytes that are not a tar */
export async function fillFromTar(
  tree: ImageTree,
  blobs: Blobs,
  bytes: AsyncIterable<Uint8Array>,
  layer: Layer,
): Promise<void> {
  for await (const entry of streamTar(bytes, 'latin1')) await addEntry(tree, blobs, entry, layer);
}

async function addEntry(
  tree: ImageTree,
  blobs: Blobs,
  entry: StreamedEntry,
  { number, hasWhiteouts }: Layer,
): Promise<void> {
  const path = entry.path.replace(/\/+$/, '');
  const names = path.split('/').filter((name) => name !== '' && name !== '.');
  if (OWN_FOLDERS.includes(names[0] ?? '') && names.length > 1) return;
  const name = names.at(-1) ?? '';
  if (hasWhiteouts && name.startsWith(WHITEOUT)) {
    const folder = names.slice(0, -1).join('/');
    if (name === OPAQUE) tree.whiteOutAll(folder, number);
    // Other names of this form are notes of a storage driver.
    else if (!name.startsWith(`${WHITEOUT}${WHITEOUT}`))
      tree.whiteOut([folder, name.slice(WHITEOUT.length)].filter((part) => part !== '').join('/'), number);
    return;
  }
  if (entry.isSparse)
    throw new ImageError(
      `The entry ${formatPath(path)} of the image is a sparse file of GNU tar.`,
      'Make the tar without --sparse.',
    );
  switch (entry.kind) {
    case 'dir':
      return tree.addFolder({ ...entry, path }, number);
    case 'symlink':
      return tree.addLink({ ...entry, path }, entry.linkTarget, number);
    case 'hardlink':
      return tree.addHardLink(path, entry.linkTarget, number);
    case 'file':
      return tree.addFile({ ...entry, path }, await blobs.add(path, entry.sizeBytes, entry.body), number);
    case 'other':
      throw new ImageError(
        `The entry ${formatPath(path)} of the image is a device, a pipe or a socket (type ${JSON.stringify(entry.typeFlag)}).`,
        'Leave it out: a guest has its own devices in /dev.',
      );
  }
}
