import type { MountSource } from '../../plan/plan.ts';
import { contains } from '../text/paths.ts';

/** Whether one lies on or in the other, as far as it can be told without the host: sources of two kinds may, which admission finds out. */
export function sharesSource(first: MountSource, second: MountSource): boolean {
  return first.kind === second.kind && (contains(first.path, second.path) || contains(second.path, first.path));
}
