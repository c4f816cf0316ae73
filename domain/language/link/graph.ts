/**
 * Returns the strongly connected groups of a dependency graph that contain a cycle: members ascending, groups by first
 * member. It takes linear time and does not recurse.
 */
export function findCycles(dependencies: readonly (readonly number[])[]): readonly (readonly number[])[] {
  const order = dependencies.map(() => -1);
  const low = dependencies.map(() => 0);
  const open = dependencies.map(() => false);
  const stack: number[] = [];
  const groups: number[][] = [];
  let count = 0;
  for (let root = 0; root < dependencies.length; root += 1) {
    if (order[root] !== -1) continue;
    const path = [{ node: root, next: 0 }];
    while (path.length > 0) {
      const frame = path.at(-1)!;
      const { node } = frame;
      if (frame.next === 0) {
        order[node] = low[node] = count++;
        open[node] = true;
        stack.push(node);
      }
      const target = dependencies[node]![frame.next++];
      if (target !== undefined) {
        if (order[target] === -1) path.push({ node: target, next: 0 });
        else if (open[target]) low[node] = Math.min(low[node]!, order[target]!);
        continue;
      }
      path.pop();
      const parent = path.at(-1);
      if (parent !== undefined) low[parent.node] = Math.min(low[parent.node]!, low[node]!);
      if (low[node] !== order[node]) continue;
      const group = stack.splice(stack.lastIndexOf(node));
      for (const member of group) open[member] = false;
      if (group.length > 1 || dependencies[node]!.includes(node)) groups.push(group.sort((a, b) => a - b));
    }
  }
  return groups.sort((a, b) => a[0]! - b[0]!);
}

/** Describes a group: `a → b → a` if it is one ring, else its members; each waits for the next one. */
export function describeCycle(
  group: readonly number[],
  dependencies: readonly (readonly number[])[],
  name: (node: number) => string,
): string {
  const members = new Set(group);
  const ring = [group[0]!];
  const seen = new Set(ring);
  for (;;) {
    const next = dependencies[ring.at(-1)!]!.find((target) => members.has(target) && !seen.has(target));
    if (next === undefined) break;
    ring.push(next);
    seen.add(next);
  }
  const closed = dependencies[ring.at(-1)!]!.includes(ring[0]!) && ring.length === group.length;
  return closed ? [...ring, ring[0]!].map(name).join(' → ') : group.map(name).join(', ');
}
