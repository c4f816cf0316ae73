/**
 * The files of an image as a tree in memory. Entries of folders, tars and layers are added in order. Links are resolved
 * in the tree, below the image's own root, and never by the host's kernel.
 */
import { cleanPath } from '../../tar/inside.ts';
import { ImageError, formatPath } from './image-error.ts';
import type { ImageLimits } from './image-limits.ts';

/** The content of a file, which its hard links share. `blob` is the number of the blob with the bytes. */
export interface FileContent {
  readonly blob: number;
  readonly sizeBytes: number;
  readonly mode: number;
  readonly modifiedS: number;
}
export interface FileNode {
  readonly kind: 'file';
  readonly layer: number;
  readonly content: FileContent;
}
export interface LinkNode {
  readonly kind: 'symlink';
  readonly layer: number;
  readonly target: string;
  readonly modifiedS: number;
}
export interface FolderNode {
  readonly kind: 'dir';
  layer: number;
  mode: number;
  modifiedS: number;
  readonly children: Map<string, ImageNode>;
}
export type ImageNode = FileNode | LinkNode | FolderNode;

/** Paths and targets are bytes, with one character for each. */
export interface TreeEntry {
  readonly path: string;
  readonly mode: number;
  readonly modifiedS: number;
}

/** Linux follows the same number of links in a path. */
const MAX_LINKS = 40;
const MAX_NAMES = 256;
/** The average number of nodes that whiteouts may visit for each entry. */
const VISITS_PER_ENTRY = 20;

interface Place {
  readonly folder: FolderNode;
  readonly name: string;
}

export class ImageTree {
  readonly root: FolderNode = createFolder(0, 0o755);
  readonly #limits: ImageLimits;
  #entries = 0;
  #visited = 0;

  constructor(limits: ImageLimits) {
    this.#limits = limits;
  }

  addFolder(entry: TreeEntry, layer: number): void {
    const place = this.#placeOf(entry.path, layer);
    if (place === null) return this.#touch(this.root, entry, layer);
    const found = place.folder.children.get(place.name);
    if (found?.kind === 'dir') return this.#touch(found, entry, layer);
    this.#count(entry.path);
    const folder = createFolder(layer, entry.mode, entry.modifiedS);
    place.folder.children.set(place.name, folder);
  }

  addFile(entry: TreeEntry, content: Pick<FileContent, 'blob' | 'sizeBytes'>, layer: number): void {
    const { mode, modifiedS } = entry;
    this.#put(entry.path, { kind: 'file', layer, content: { ...content, mode, modifiedS } });
  }

  addLink(entry: TreeEntry, target: string, layer: number): void {
    if (target === '' || target.includes('\0') || target.length > 4_095)
      throw createUnfitError(entry.path, `is a link with an invalid target of ${target.length} bytes`);
    this.#put(entry.path, { kind: 'symlink', layer, target, modifiedS: entry.modifiedS });
  }

  /** Adds a hard link to a file that the tree already contains. */
  addHardLink(path: string, target: string, layer: number): void {
    const names = namesOf(target);
    const found = names === null || names.length === 0 ? null : this.#find(names, false);
    if (found === null || found.kind === 'dir')
      throw createUnfitError(
        path,
        `is a hard link to ${formatPath(target)}, which is not a file of the image before it`,
      );
    this.#put(path, { ...found, layer });
  }

  /** Removes entries of earlier layers at the path; entries of this layer stay. */
  whiteOut(path: string, layer: number): void {
    this.#count(path);
    const names = requireNames(path);
    const folder = this.#find(names.slice(0, -1), true);
    const found = folder?.kind === 'dir' ? folder.children.get(names.at(-1)!) : undefined;
    if (folder?.kind === 'dir' && found !== undefined && !this.#keep(found, layer))
      folder.children.delete(names.at(-1)!);
  }

  /** Removes entries of earlier layers in the folder. */
  whiteOutAll(path: string, layer: number): void {
    this.#count(path);
    const folder = this.#find(namesOf(path) ?? [], true);
    if (folder?.kind === 'dir') this.#keepChildren(folder, layer);
  }

  /** Returns the node at the end of a path after following links; null if it does not exist. */
  resolve(path: string): ImageNode | null {
    return this.#find(
      path.split('/').filter((name) => name !== ''),
      true,
    );
  }

  /** Returns the node itself, without following a link. */
  get(path: string): ImageNode | null {
    return this.#find(
      path.split('/').filter((name) => name !== ''),
      false,
    );
  }

  #touch(folder: FolderNode, { mode, modifiedS }: TreeEntry, layer: number): void {
    Object.assign(folder, { mode, modifiedS, layer });
  }

  #put(path: string, node: ImageNode): void {
    const place = this.#placeOf(path, node.layer);
    if (place === null) throw createUnfitError(path, 'is the root, but not a folder');
    this.#count(path);
    place.folder.children.set(place.name, node);
  }

  /** Returns null for the root. Missing parent folders are made. */
  #placeOf(path: string, layer: number): Place | null {
    const names = requireNames(path);
    const name = names.at(-1);
    if (name === undefined) return null;
    const { folder, walked } = this.#folderAt(names.slice(0, -1), layer, path);
    const pathBytes = walked.reduce((sum, each) => sum + each.length + 1, name.length);
    if (pathBytes > this.#limits.pathBytes || walked.length >= MAX_NAMES)
      throw createUnfitError(
        path,
        `has a path of ${pathBytes} bytes and ${walked.length + 1} names; at most ${this.#limits.pathBytes} and ${MAX_NAMES} are allowed`,
      );
    return { folder, name };
  }

  #folderAt(names: readonly string[], layer: number, path: string): { folder: FolderNode; walked: readonly string[] } {
    const walk = new Walk(this.root);
    let left = [...names];
    for (let links = 0; left.length > 0;) {
      const name = left.shift()!;
      if (name === '..') walk.up();
      else {
        const found = walk.folder.children.get(name);
        if (found?.kind === 'dir') walk.into(name, found);
        else if (found?.kind === 'symlink') {
          if (++links > MAX_LINKS) throw createUnfitError(path, 'is reached through too many links');
          if (found.target.startsWith('/')) walk.toRoot();
          left = [...partsOf(found.target), ...left];
        } else if (found === undefined) {
          this.#count(path);
          const made = createFolder(layer, 0o755);
          walk.folder.children.set(name, made);
          walk.into(name, made);
        } else throw createUnfitError(path, `is below ${formatPath([...walk.names, name].join('/'))}, which is a file`);
      }
      if (left.length > MAX_NAMES || walk.names.length > MAX_NAMES) throw createUnfitError(path, 'is nested too deep');
    }
    return { folder: walk.folder, walked: walk.names };
  }

  #find(names: readonly string[], isLastFollowed: boolean): ImageNode | null {
    const walk = new Walk(this.root);
    let left = [...names];
    for (let links = 0; left.length > 0;) {
      const name = left.shift()!;
      if (name === '..') {
        walk.up();
        continue;
      }
      const found = walk.folder.children.get(name);
      if (found === undefined) return null;
      if (found.kind === 'dir') walk.into(name, found);
      else if (found.kind === 'symlink' && (left.length > 0 || isLastFollowed)) {
        if (++links > MAX_LINKS) return null;
        if (found.target.startsWith('/')) walk.toRoot();
        left = [...partsOf(found.target), ...left];
        if (left.length > MAX_NAMES) return null;
      } else return left.length === 0 ? found : null;
    }
    return walk.folder;
  }

  /** Returns false if no part of the node belongs to the layer. */
  #keep(node: ImageNode, layer: number): boolean {
    if (node.kind === 'dir') this.#keepChildren(node, layer);
    return node.layer === layer || (node.kind === 'dir' && node.children.size > 0);
  }

  #keepChildren(folder: FolderNode, layer: number): void {
    this.#visited += folder.children.size;
    // Each whiteout visits every node that it could remove: without a limit, a few of them would use a CPU for days.
    if (this.#visited > VISITS_PER_ENTRY * this.#limits.entries)
      throw new ImageError('The image removes files of its layers again and again.', 'Use an image with fewer layers.');
    for (const [name, child] of folder.children) if (!this.#keep(child, layer)) folder.children.delete(name);
  }

  #count(path: string): void {
    this.#entries += 1;
    if (this.#entries > this.#limits.entries)
      throw new ImageError(
        `The image has more than ${this.#limits.entries} entries; ${formatPath(path)} is one too many.`,
        'Use a smaller image.',
      );
  }
}

/** The position of a walk through the tree; `..` of the root is the root. */
class Walk {
  readonly names: string[] = [];
  readonly #folders: FolderNode[];

  constructor(root: FolderNode) {
    this.#folders = [root];
  }

  get folder(): FolderNode {
    return this.#folders.at(-1)!;
  }

  into(name: string, folder: FolderNode): void {
    this.names.push(name);
    this.#folders.push(folder);
  }

  up(): void {
    if (this.names.pop() !== undefined) this.#folders.pop();
  }

  toRoot(): void {
    this.names.length = 0;
    this.#folders.length = 1;
  }
}

export function createFolder(layer: number, mode: number, modifiedS = 0): FolderNode {
  return { kind: 'dir', layer, mode, modifiedS, children: new Map() };
}

function partsOf(target: string): readonly string[] {
  return target.split('/').filter((part) => part !== '' && part !== '.');
}

/**
 * Splits the path of an archive's entry; a path that begins with `/` is relative to the image's root. Null if it leaves
 * the image.
 */
function namesOf(path: string): readonly string[] | null {
  const inside = path.replace(/^\/+/, '');
  if (partsOf(inside).length === 0 && !inside.includes('\0')) return [];
  return cleanPath(inside)?.split('/') ?? null;
}

function requireNames(path: string): readonly string[] {
  const names = namesOf(path);
  if (names === null) throw createUnfitError(path, 'has a path that leads out of the image, or an invalid name');
  return names;
}

function createUnfitError(path: string, what: string): ImageError {
  return new ImageError(
    `The entry ${formatPath(path)} of the image ${what}.`,
    'Use an image that was made by a build of containers or with tar.',
  );
}
