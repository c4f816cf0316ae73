/** Versions that were read: a version never changes. */
import type { DeploymentStore, VersionRow } from '../../store/triggers.ts';

/** Another one then forgets the one that was used least recently. */
const MOST_VERSIONS = 16;

export type FindVersion = (deployments: Pick<DeploymentStore, 'findVersion'>) => DeploymentStore['findVersion'];

export function createKnownVersions(mostVersions = MOST_VERSIONS): FindVersion {
  const known = new Map<string, VersionRow>();
  return (deployments) => async (name, version) => {
    const key = `${version} ${name}`;
    const found = known.get(key) ?? (await deployments.findVersion(name, version));
    if (found === null) return null;
    // The order of a map is the order of insertion.
    known.delete(key);
    known.set(key, found);
    if (known.size > mostVersions) known.delete(known.keys().next().value!);
    return found;
  };
}
