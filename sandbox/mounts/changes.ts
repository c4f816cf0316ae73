/** What a guest made of a folder, against what it was. Pure. */
import { sameEntry, type Manifest, type MountEntry } from './manifest.ts';

/** One path that is not as it was; null is absent. */
export interface Change {
  readonly path: string;
  readonly from: MountEntry | null;
  readonly to: MountEntry | null;
}

/** In the order of paths, so a folder comes before what is in it. */
export function changesBetween(before: Manifest, now: Manifest): readonly Change[] {
  const changes: Change[] = [];
  for (const [path, to] of now) {
    const from = before.get(path) ?? null;
    if (!sameEntry(from, to)) changes.push({ path, from, to });
  }
  for (const [path, from] of before) if (!now.has(path)) changes.push({ path, from, to: null });
  return changes.sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
}

/** True for a change that takes a folder away: it is removed, or something else comes in its place. */
export function removesFolder({ from, to }: Change): boolean {
  return from?.kind === 'dir' && to?.kind !== 'dir';
}

/** True for a change in which the old entry has to go before the new one can come. */
export function removesFirst({ from, to }: Change): boolean {
  return from !== null && (to === null || (from.kind === 'dir') !== (to.kind === 'dir'));
}

export function parentOf(path: string): string {
  const end = path.lastIndexOf('/');
  return end === -1 ? '' : path.slice(0, end);
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** Depth first, deepest last: `a` before `a/b`. Sorting paths as texts keeps that, since a beginning sorts first. */
export function deepestFirst(changes: readonly Change[]): readonly Change[] {
  return [...changes].reverse();
}

/** Names of a path; each folder on the way holds a descriptor while it is used. */
export const MAX_DEPTH = 128;

/** A path of a tar as manifests have it; null when it could leave the folder or its names are no names. */
export function cleanPath(path: string): string | null {
  if (path.startsWith('/') || path.includes('\0') || path.length > 4096) return null;
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.length === 0 || parts.length > MAX_DEPTH || parts.some((part) => part === '..' || part.length > 255))
    return null;
  return parts.join('/');
}

/**
 * True for a relative target whose `..` all stand at its front and do not outnumber the folders above the link: a `..`
 * behind a name could climb out of what another link leads to. The keeper and the guest judge links alike.
 */
export function linkStaysInside(path: string, target: string): boolean {
  if (target === '' || target.startsWith('/') || target.includes('\0') || target.length > 4096) return false;
  let above = path.split('/').length - 1;
  let named = false;
  for (const part of target.split('/')) {
    if (part === '' || part === '.') continue;
    if (part !== '..') named = true;
    else if (named || above === 0) return false;
    else above -= 1;
  }
  return true;
}
