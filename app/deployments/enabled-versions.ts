/** The enabled versions of all deployments, at which several parts of a service look again and again. */
import type { DeploymentRow, DeploymentStore, VersionRow } from '../../store/triggers.ts';

/** Only what those parts need, because a service may have many deployments. */
export interface EnabledVersion extends DeploymentRow, Pick<VersionRow, 'triggers' | 'notify'> {}

type Rows = Pick<DeploymentStore, 'readMark' | 'list' | 'findVersions'>;

/** Lists them by name, also of deployments that are paused. */
export type EnabledList = (deployments: Rows) => Promise<readonly EnabledVersion[]>;

const PAGE = 200;
/** Each version is read with its whole spec. */
const VERSIONS_AT_ONCE = 10;

/** A look at deployments that have not changed is one query. A version never changes, so it is read once. */
export function createEnabledList(): EnabledList {
  let listed: { readonly mark: string; readonly versions: readonly EnabledVersion[] } | null = null;
  return async (deployments) => {
    // Before the rows, so that the next look finds a change between both.
    const mark = await deployments.readMark();
    if (listed?.mark === mark) return listed.versions;
    const known = new Map<string, Contents>(listed?.versions.map((each) => [nameVersion(each), each]));
    const versions: EnabledVersion[] = [];
    for (let after: string | undefined; ;) {
      const rows = await deployments.list(PAGE, after);
      await readVersions(rows, known, deployments);
      for (const row of rows) {
        const { triggers, notify } = known.get(nameVersion(row))!;
        versions.push({ ...row, triggers, notify });
      }
      if (rows.length < PAGE) break;
      after = rows.at(-1)!.name;
    }
    listed = { mark, versions };
    return versions;
  };
}

type Contents = Pick<EnabledVersion, 'triggers' | 'notify'>;

async function readVersions(
  rows: readonly DeploymentRow[],
  known: Map<string, Contents>,
  deployments: Rows,
): Promise<void> {
  const missing = rows.filter((row) => !known.has(nameVersion(row)));
  for (let at = 0; at < missing.length; at += VERSIONS_AT_ONCE) {
    const asked = missing.slice(at, at + VERSIONS_AT_ONCE).map(({ name, version }) => ({ deployment: name, version }));
    for (const { deployment, version, triggers, notify } of await deployments.findVersions(asked))
      known.set(nameVersion({ name: deployment, version }), { triggers, notify });
  }
}

function nameVersion({ name, version }: Pick<DeploymentRow, 'name' | 'version'>): string {
  return `${version} ${name}`;
}
