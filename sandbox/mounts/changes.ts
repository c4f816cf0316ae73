/** Computes the changes of a guest in a folder. Pure. */
import { isSameEntry, type Manifest, type MountEntry } from './manifest.ts';

/** One changed path; null means absent. */
export interface Change {
  readonly path: string;
  readonly from: MountEntry | null;
  readonly to: MountEntry | null;
}

/** Returns changes sorted by path, so a folder precedes its content. */
export function changesBetween(before: Manifest, now: Manifest): readonly Change[] {
  const changes: Change[] = [];
  for (const [path, to] of now) {
    const from = before.get(path) ?? null;
    if (!isSameEntry(from, to)) changes.push({ path, from, to });
  }
  for (const [path, from] of before) if (!now.has(path)) changes.push({ path, from, to: null });
  return changes.sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
}

/** Returns true for a change that removes a folder, or replaces it by something else. */
export function removesFolder({ from, to }: Change): boolean {
  return from?.kind === 'dir' && to?.kind !== 'dir';
}

/** Returns true for a change in which the old entry must be removed before the new one is made. */
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

/**
 * Sorts the deepest paths first: `a/b` before `a`. Changes are sorted as text, and a prefix sorts first, so reversing
 * is enough.
 */
export function deepestFirst(changes: readonly Change[]): readonly Change[] {
  return [...changes].reverse();
}
