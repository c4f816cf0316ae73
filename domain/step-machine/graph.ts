export type Edges = ReadonlyMap<string, readonly string[]>;

interface Visit {
  readonly node: string;
  next: number;
}

/**
 * Strongly connected components by Tarjan's algorithm, without recursion: a skill may be a chain of thousands of steps.
 */
export function findComponents(edges: Edges): readonly (readonly string[])[] {
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const open: string[] = [];
  const isOpen = new Set<string>();
  const found: string[][] = [];
  const begin = (node: string): Visit => {
    low.set(node, index.size);
    index.set(node, index.size);
    open.push(node);
    isOpen.add(node);
    return { node, next: 0 };
  };
  const lower = (node: string, to: number): void => void low.set(node, Math.min(low.get(node)!, to));
  const close = (node: string): void => {
    if (low.get(node) !== index.get(node)) return;
    const members = open.splice(open.lastIndexOf(node));
    for (const member of members) isOpen.delete(member);
    found.push(members);
  };

  for (const root of edges.keys()) {
    if (index.has(root)) continue;
    const path: Visit[] = [begin(root)];
    for (let visit = path.at(-1); visit !== undefined; visit = path.at(-1)) {
      const target = edges.get(visit.node)![visit.next++];
      if (target === undefined) {
        path.pop();
        close(visit.node);
        const parent = path.at(-1);
        if (parent !== undefined) lower(parent.node, low.get(visit.node)!);
      } else if (!index.has(target)) path.push(begin(target));
      else if (isOpen.has(target)) lower(visit.node, index.get(target)!);
    }
  }
  return found;
}

/** Every step on a cycle; a step that leads to itself is on a cycle. */
export function cycleMembers(edges: Edges): ReadonlySet<string> {
  const cyclic = findComponents(edges).filter(
    (members) => members.length > 1 || edges.get(members[0]!)!.includes(members[0]!),
  );
  return new Set(cyclic.flat());
}

/** The steps that can be reached from some steps, including these, without passing through `stop`. */
export function findReachable(edges: Edges, from: readonly string[], stop?: string): ReadonlySet<string> {
  const seen = new Set(from.filter((step) => step !== stop));
  for (const step of seen) for (const target of edges.get(step) ?? []) if (target !== stop) seen.add(target);
  return seen;
}
