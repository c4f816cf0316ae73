/**
 * Writes the tree below a new folder, from which the disk is made. Every folder in a path is new, and links are made
 * last of all, so no path leads outside.
 */
import { Buffer } from 'node:buffer';
import { chmod, link, lutimes, mkdir, rename, symlink } from 'node:fs/promises';
import type { TreeSize } from '../dev-disk/ext4.ts';
import type { Blobs } from './fill-tree.ts';
import type { FileContent, FolderNode, LinkNode } from './image-tree.ts';

/** The largest time that ext4 can store, in seconds. */
const MAX_TIME_S = 2 ** 32 - 1;
/** A longer target of a link uses its own block. */
const INLINE_TARGET_BYTES = 60;
const BLOCK_BYTES = 4096;

/**
 * Writes the tree. In the guest all files belong to root: setuid and similar bits are removed, and root may read every
 * file.
 */
export async function writeTree(root: FolderNode, blobs: Blobs, into: string): Promise<TreeSize> {
  const size = { inodes: 0, bytes: 0 };
  const placed = new Map<FileContent, Buffer>();
  const links: { at: Buffer; node: LinkNode }[] = [];
  const folders: { at: Buffer; node: FolderNode }[] = [{ at: Buffer.from(into), node: root }];
  for (let index = 0; index < folders.length; index += 1) {
    const { at, node } = folders[index]!;
    if (index > 0) await mkdir(at, { mode: 0o700 });
    count(size, folderBytes(node));
    for (const [name, child] of node.children) {
      const path = Buffer.concat([at, Buffer.from('/'), Buffer.from(name, 'latin1')]);
      if (child.kind === 'dir') folders.push({ at: path, node: child });
      else if (child.kind === 'symlink') links.push({ at: path, node: child });
      else await placeFile(child.content, blobs, path, placed, size);
    }
  }
  for (const { at, node } of links) {
    await symlink(Buffer.from(node.target, 'latin1'), at);
    await setTime(at, node.modifiedS);
    count(size, node.target.length < INLINE_TARGET_BYTES ? 0 : BLOCK_BYTES);
  }
  // Folders come last, because making an entry changes its folder's time.
  for (const { at, node } of folders.toReversed()) {
    await chmod(at, (node.mode & 0o1777) | 0o700);
    await setTime(at, node.modifiedS);
  }
  return size;
}

async function placeFile(
  content: FileContent,
  blobs: Blobs,
  path: Buffer,
  placed: Map<FileContent, Buffer>,
  size: { inodes: number; bytes: number },
): Promise<void> {
  const first = placed.get(content);
  if (first !== undefined) return await link(first, path);
  await rename(blobs.path(content.blob), path);
  await chmod(path, (content.mode & 0o777) | 0o400);
  await setTime(path, content.modifiedS);
  placed.set(content, path);
  count(size, content.sizeBytes);
}

async function setTime(path: Buffer, modifiedS: number): Promise<void> {
  const time = Math.min(modifiedS, MAX_TIME_S);
  await lutimes(path, time, time);
}

function folderBytes({ children }: FolderNode): number {
  let bytes = 0;
  for (const name of children.keys()) bytes += name.length + 12;
  // Blocks of a folder are not filled to their ends.
  return Math.max(BLOCK_BYTES, bytes * 2);
}

function count(size: { inodes: number; bytes: number }, bytes: number): void {
  size.inodes += 1;
  size.bytes += Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
}
