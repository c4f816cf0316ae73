/** What a guest made of a folder, against what it was. Pure. */
import { isSameEntry, type Manifest, type MountEntry } from './manifest.ts';

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
    if (!isSameEntry(from, to)) changes.push({ path, from, to });
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
