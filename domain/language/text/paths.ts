/** Functions for POSIX paths, without Node, because the domain is pure. */

/** Normalizes a path: `/a/./b//../c` becomes `/a/c`; null if it climbs above the root or is not absolute. */
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

/** Resolves a path from a folder; an absolute path stays the same. */
export function resolveFrom(folder: string, path: string): string | null {
  return normalizeAbsolute(path.startsWith('/') ? path : `${folder}/${path}`);
}

/** Normalizes a relative path; `.` is the folder itself. Null if it leaves the folder or is absolute. */
export function toRelativePath(path: string): string | null {
  const normal = path.startsWith('/') ? null : normalizeAbsolute(`/${path}`);
  return normal === null ? null : normal === '/' ? '.' : normal.slice(1);
}

/** Whether the second path is the first or lies below it. Both must be normalized. */
export function contains(outer: string, inner: string): boolean {
  return inner === outer || outer === '/' || inner.startsWith(`${outer}/`);
}

/**
 * Returns pairs of indexes of normalized paths that overlap: at least one pair for each path that overlaps with
 * another.
 */
export function findOverlappingPairs(paths: readonly string[]): readonly (readonly [number, number])[] {
  // With a slash at the end, all paths below a path follow it directly in sorted order.
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
 * System folders of the guest: no mount may be in or over them. The guest reads the same list from
 * `guest/protocol/src/system-folders.txt`. This module cannot read it, because it is pure.
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

/** The places of a stage's own files: its input, the files of an agent, and the home of the commands' user. */
const OWN_FOLDERS = ['/workspace', '/home/sandbox'];

/** Returns the folder with a stage's own files within this path; null if the path contains no such folder. */
export function ownFolderIn(path: string): string | null {
  return OWN_FOLDERS.find((folder) => contains(path, folder)) ?? null;
}

/** Folders that must be writable in every stage. */
const WRITABLE_FOLDERS = ['/workspace', '/tmp', '/home', '/home/sandbox'];

/** Explains why a normalized guest path may not be mounted or filled; null if it may. */
export function explainGuestPathRefusal(path: string): string | null {
  if (path === '/') return 'the whole root of the guest';
  const system = SYSTEM_FOLDERS.find((folder) => contains(folder, path));
  return system === undefined ? null : `a system folder of the guest (${system})`;
}

/** Whether a read-only mount at this path would hide a folder that the stage must be able to write. */
export function mustStayWritable(path: string): boolean {
  return WRITABLE_FOLDERS.includes(path);
}
