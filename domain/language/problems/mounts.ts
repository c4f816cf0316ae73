import type { Plan } from '../../plan/plan.ts';
import { sharesSource } from './mount-source.ts';
import { mustStayWritable, findOverlappingPairs } from '../text/paths.ts';

export function mountProblems(checked: Plan): readonly string[] {
  return checked.scopes.flatMap(({ id, sandbox: { mode, isolation, mounts } }) => {
    const problems = findOverlappingPairs(mounts.map((mount) => mount.guestPath)).map(
      ([a, b]) => `scope ${id} has two mounts on or in each other: ${mounts[a]!.guestPath}, ${mounts[b]!.guestPath}`,
    );
    mounts.forEach((mount, position) => {
      if (mount.mode === 'ro' && mustStayWritable(mount.guestPath))
        problems.push(`scope ${id} has a read-only mount on ${mount.guestPath}`);
      for (const other of mounts.slice(0, position)) {
        if (sharesSource(mount.source, other.source) && (mount.mode === 'rw' || other.mode === 'rw'))
          problems.push(
            `scope ${id} has a writable mount that shares host files with another: ${mount.source.path}, ${other.source.path}`,
          );
      }
    });
    if (mode === 'mock' && isolation !== 'none')
      problems.push(`scope ${id} requires isolation ${isolation}, but its mode \`mock\` isolates nothing`);
    return problems;
  });
}
