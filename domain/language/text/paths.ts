/** POSIX paths, without Node: the domain is pure. */

/** `/a/./b//../c` → `/a/c`; null when the path climbs above the root or is not absolute. */
export function normalizeAbsolute(path: string): string | null {
  if (!path.startsWith('/')) return null;
  const parts: string[] = [];
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue;
    if (part !== '..') parts.push(part);
    else if (parts.pop() === undefined) return null;
  }
  return `/${parts.join('/')}`;
}

/** A path as seen from a folder; an absolute one stays itself. */
export function resolveFrom(folder: string, path: string): string | null {
  return normalizeAbsolute(path.startsWith('/') ? path : `${folder}/${path}`);
}

/** A path without a root, from a folder that it does not leave; `.` is the folder. Null when it does. */
export function relativePath(path: string): string | null {
  const normal = path.startsWith('/') ? null : normalizeAbsolute(`/${path}`);
  return normal === null ? null : normal === '/' ? '.' : normal.slice(1);
}

/** Both normalized: whether the second is the first or lies below it. */
export function contains(outer: string, inner: string): boolean {
  return inner === outer || outer === '/' || inner.startsWith(`${outer}/`);
}

/** Pairs of indexes of normalized paths that lie on or in each other: for each path that does, at least one pair with it. */
export function findOverlappingPairs(paths: readonly string[]): readonly (readonly [number, number])[] {
  // With a slash behind each, all that lie in a path follow it directly in sorted order.
  const sorted = paths
    .map((path, index) => ({ path: path === '/' ? path : `${path}/`, index }))
    .sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : a.index - b.index));
  const pairs: (readonly [number, number])[] = [];
  let outer = sorted[0];
  for (const each of sorted.slice(1)) {
    if (outer !== undefined && each.path.startsWith(outer.path))
      pairs.push(outer.index < each.index ? [outer.index, each.index] : [each.index, outer.index]);
    else outer = each;
  }
  return pairs.sort((a, b) => a[1] - b[1]);
}

/**
 * Folders of the guest's own system; nothing may be put into or over them. The guest reads the same list from
 * `guest/protocol/src/system-folders.txt`, which this module cannot: it is pure.
 */
export const SYSTEM_FOLDERS = [
  '/bin',
  '/boot',
  '/dev',
  '/etc',
  '/init',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/proc',
  '/root',
  '/run',
  '/sbin',
  '/sys',
  '/usr',
  '/var',
];

/** Where a stage's own files lie: its input, what an agent reads and writes, and the home of the user of commands. */
const OWN_FOLDERS = ['/workspace', '/home/sandbox'];

/** The folder with a stage's own files that lies in this one; null: none. */
export function ownFolderIn(path: string): string | null {
  return OWN_FOLDERS.find((folder) => contains(path, folder)) ?? null;
}

/** Folders that every stage needs writable. */
const WRITABLE_FOLDERS = ['/workspace', '/tmp', '/home', '/home/sandbox'];

/** Why a normalized guest path may not be mounted on, or filled; null when it may. */
export function guestPathRefusal(path: string): string | null {
  if (path === '/') return 'the whole root of the guest';
  const system = SYSTEM_FOLDERS.find((folder) => contains(folder, path));
  return system === undefined ? null : `a system folder of the guest (${system})`;
}

/** Whether a read-only mount there would take a folder away that the stage must be able to write. */
export function mustStayWritable(path: string): boolean {
  return WRITABLE_FOLDERS.includes(path);
}
