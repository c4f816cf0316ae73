import type { MountSource } from '../../plan/plan.ts';
import { contains } from '../text/paths.ts';

/**
 * Whether one source contains the other, as far as the paths show. Sources of two kinds may also overlap; admission
 * checks that on the host.
 */
export function sharesSource(first: MountSource, second: MountSource): boolean {
  return first.kind === second.kind && (contains(first.path, second.path) || contains(second.path, first.path));
}
