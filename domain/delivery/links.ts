/** Which deployments follow which: their enabled triggers start runs at the ends of runs. No chain may lead back. */
import type { Trigger } from './trigger.ts';

export interface Link {
  /** The deployment that follows. */
  readonly deployment: string;
  /** The deployment whose runs end. */
  readonly upstream: string;
}

/** Returns the names of the deployments that triggers follow, each once and sorted. */
export function listUpstreams(triggers: readonly Pick<Trigger, 'source'>[]): readonly string[] {
  const names = triggers.flatMap(({ source }) => (source.kind === 'run' ? [source.of] : []));
  return [...new Set(names)].toSorted();
}

/**
 * Finds a circle of deployments that follow each other.
 * @param links  of all enabled versions
 * @param start  a deployment of the circle
 * @returns the names from `start` to `start`, each followed by the one that it follows; null: there is no circle
 */
export function findCircle(links: readonly Link[], start: string): readonly string[] | null {
  const upstreams = new Map<string, string[]>();
  for (const { deployment, upstream } of links) {
    const known = upstreams.get(deployment);
    if (known === undefined) upstreams.set(deployment, [upstream]);
    else known.push(upstream);
  }
  // Each name keeps the name from which it was reached first.
  const from = new Map<string, string>();
  const open = [start];
  for (let name = open.shift(); name !== undefined; name = open.shift())
    for (const upstream of upstreams.get(name) ?? []) {
      if (from.has(upstream)) continue;
      from.set(upstream, name);
      if (upstream === start) return readPath(from, start);
      open.push(upstream);
    }
  return null;
}

function readPath(from: ReadonlyMap<string, string>, start: string): readonly string[] {
  const path = [start];
  for (let name = from.get(start)!; name !== start; name = from.get(name)!) path.unshift(name);
  return [start, ...path];
}

/** @param circle  as `findCircle` returns it */
export function describeCircle(circle: readonly string[]): string {
  const shown = circle.length > MOST_SHOWN ? [...circle.slice(0, MOST_SHOWN), '…', circle.at(-1)!] : circle;
  return shown.join(' → ');
}

const MOST_SHOWN = 12;
