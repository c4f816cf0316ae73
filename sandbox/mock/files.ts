/** A mock guest's files: a tree in memory that contains nothing of the host. */
import { Buffer } from 'node:buffer';
import { posix } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { TarEntry } from '../../tar/read.ts';
import type { TarItem } from '../../tar/write.ts';

export type MockNode =
  | { readonly kind: 'file'; readonly mode: number; readonly body: Buffer }
  | { readonly kind: 'dir'; readonly mode: number }
  | { readonly kind: 'symlink'; readonly target: string };

const LINKS_FOLLOWED = 16;

export class MockFiles {
  readonly #nodes = new Map<string, MockNode>([['/', { kind: 'dir', mode: 0o755 }]]);

  constructor() {
    for (const dir of ['/workspace', '/home/sandbox', '/tmp']) this.makeDir(dir);
  }

  /** The node at a path, links followed unless told otherwise. */
  find(path: string, options: { readonly followLast?: boolean } = {}): MockNode | null {
    const real = this.#resolve(path, options.followLast ?? true);
    return real === null ? null : (this.#nodes.get(real) ?? null);
  }

  makeDir(path: string, mode = 0o755): void {
    const clean = posix.normalize(path).replace(/(.)\/$/, '$1');
    if (clean === '/') return;
    this.makeDir(posix.dirname(clean));
    const real = this.#resolve(clean, true) ?? clean;
    const there = this.#nodes.get(real);
    if (there === undefined) this.#nodes.set(real, { kind: 'dir', mode });
    else if (there.kind !== 'dir') throw new CodedError('vm/guest-error', `${path}: not a folder`);
  }

  write(path: string, body: Uint8Array, mode = 0o644): void {
    this.#put(path, { kind: 'file', mode, body: Buffer.from(body) });
  }

  link(path: string, target: string): void {
    this.#put(path, { kind: 'symlink', target });
  }

  /**
   * Unpacks an entry below `root`.
   * @throws CodedError `vm/guest-error` for an entry that would be outside
   */
  unpack(root: string, entry: TarEntry): void {
    const inside = normalizeInside(entry.path);
    if (inside === null || this.#leadsThroughLink(root, inside))
      throw new CodedError('vm/guest-error', `tar: ${entry.path} leads out of ${root}`);
    const path = posix.join(root, inside);
    if (entry.kind === 'dir') this.makeDir(path, entry.mode);
    else if (entry.kind === 'file') this.write(path, entry.body, entry.mode & 0o777);
    else if (entry.kind === 'symlink' && linkStaysInside(inside, entry.linkTarget)) this.link(path, entry.linkTarget);
    else
      throw new CodedError(
        'vm/guest-error',
        `tar: ${entry.path} is a ${entry.kind === 'other' ? 'device or special file' : `${entry.kind} to ${entry.linkTarget}`}`,
      );
  }

  /**
   * Returns the entries that a tar of the path contains: a folder's content, or one file under its name.
   * @throws CodedError `stage/bad-output` for a link that leads outside
   */
  pack(path: string): TarItem[] | null {
    const root = this.#resolve(path, true);
    const node = root === null ? undefined : this.#nodes.get(root);
    if (root === null || node === undefined) return null;
    if (node.kind === 'file') return [{ kind: 'file', path: posix.basename(path), mode: node.mode, body: node.body }];
    const prefix = root === '/' ? '/' : `${root}/`;
    return [...this.#nodes]
      .filter(([name]) => name.startsWith(prefix) && name !== '/')
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, child]) => {
        const inside = name.slice(prefix.length);
        if (child.kind === 'file') return { kind: 'file', path: inside, mode: child.mode, body: child.body };
        if (child.kind === 'dir') return { kind: 'dir', path: inside, mode: child.mode };
        if (!linkStaysInside(inside, child.target))
          throw new CodedError('stage/bad-output', `${name} is a link to ${child.target}, which leads out of ${path}`);
        return { kind: 'symlink', path: inside, target: child.target };
      });
  }

  /** All entries with their real paths; a folder precedes its content. */
  listNodes(): ReadonlyMap<string, MockNode> {
    return this.#nodes;
  }

  #put(path: string, node: MockNode): void {
    const clean = posix.normalize(path);
    this.makeDir(posix.dirname(clean));
    const parent = this.#resolve(posix.dirname(clean), true) as string;
    const real = posix.join(parent, posix.basename(clean));
    if (this.#nodes.get(real)?.kind === 'dir') throw new CodedError('vm/guest-error', `${path}: is a folder`);
    this.#nodes.set(real, node);
  }

  #leadsThroughLink(root: string, inside: string): boolean {
    const parts = inside.split('/').slice(0, -1);
    return parts.some(
      (_, index) =>
        this.find(posix.join(root, ...parts.slice(0, index + 1)), { followLast: false })?.kind === 'symlink',
    );
  }

  /** Returns the path with every link followed; null if links form a cycle. */
  #resolve(path: string, followLast: boolean): string | null {
    let pending = posix
      .normalize(path)
      .split('/')
      .filter((part) => part !== '');
    let real = '/';
    for (let links = 0; pending.length > 0;) {
      const [part, ...rest] = pending as [string, ...string[]];
      const next = posix.join(real, part);
      const node = this.#nodes.get(next);
      if (node?.kind === 'symlink' && (rest.length > 0 || followLast)) {
        if ((links += 1) > LINKS_FOLLOWED) return null;
        const target = posix.resolve(real, node.target);
        pending = [...target.split('/').filter((name) => name !== ''), ...rest];
        real = '/';
      } else {
        real = next;
        pending = rest;
      }
    }
    return real;
  }
}

/** A relative path without `..`, or null. */
function normalizeInside(path: string): string | null {
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  return path.startsWith('/') || parts.includes('..') ? null : parts.join('/');
}

function linkStaysInside(linkPath: string, target: string): boolean {
  if (target === '' || target.startsWith('/')) return false;
  const joined = posix.normalize(posix.join(posix.dirname(linkPath), target));
  return joined !== '..' && !joined.startsWith('../');
}
