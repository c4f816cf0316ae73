/** Deployments in memory, for tests of what uses them. */
import { describeCircle, findCircle, type Link, listUpstreams } from '../../../domain/delivery/links.ts';
import type { Trigger } from '../../../domain/delivery/trigger.ts';
import { CodedError } from '../../../domain/errors/coded-error.ts';
import type { DeploymentRow, DeploymentStore, VersionRow } from '../../../store/triggers.ts';

interface Kept {
  row: DeploymentRow;
  isDeleted: boolean;
  readonly versions: VersionRow[];
}

export function createMemoryDeployments(): DeploymentStore {
  const kept = new Map<string, Kept>();
  const findOpen = (name: string): Kept | null => {
    const found = kept.get(name);
    return found === undefined || found.isDeleted ? null : found;
  };
  const change = (name: string, changes: Partial<DeploymentRow>): Promise<DeploymentRow | null> => {
    const found = findOpen(name);
    if (found === null) return Promise.resolve(null);
    found.row = { ...found.row, ...changes };
    return Promise.resolve(found.row);
  };
  const listLinks = (): readonly Link[] =>
    [...kept.values()].flatMap(({ row, isDeleted, versions }) =>
      isDeleted
        ? []
        : listUpstreams(versions[row.version - 1]!.triggers).map((upstream) => ({ deployment: row.name, upstream })),
    );
  const refuseCircle = (name: string, triggers: readonly Trigger[]): void => {
    const own = listUpstreams(triggers).map((upstream) => ({ deployment: name, upstream }));
    const circle = findCircle([...listLinks().filter(({ deployment }) => deployment !== name), ...own], name);
    if (circle !== null)
      throw new CodedError('deploy/circle', `deployments would follow each other: ${describeCircle(circle)}`);
  };
  return {
    async deploy(version, { isPaused }) {
      const { deployment: name, createdAtMs, hash } = version;
      const open = findOpen(name);
      const current = open?.versions.find((each) => each.version === open.row.version);
      if (open !== null && current?.hash === hash)
        return { deployment: open.row, version: current, isNew: current.folder === version.folder };
      refuseCircle(name, version.triggers);
      const versions = kept.get(name)?.versions ?? [];
      // A copy, as a row is.
      const made: VersionRow = { ...structuredClone(version), version: versions.length + 1 };
      versions.push(made);
      const times = { createdAtMs: open?.row.createdAtMs ?? createdAtMs, changedAtMs: createdAtMs };
      const state = open === null ? { isPaused, onPause: 'hold' as const } : open.row;
      const row = { ...state, ...times, name, version: made.version };
      kept.set(name, { row, isDeleted: false, versions });
      return await Promise.resolve({ deployment: row, version: made, isNew: true });
    },
    find: (name) => Promise.resolve(findOpen(name)?.row ?? null),
    list(limit, after) {
      const rows = [...kept.values()].filter(({ isDeleted }) => !isDeleted).map(({ row }) => row);
      const behind = rows.filter(({ name }) => after === undefined || compareTexts(name, after) > 0);
      return Promise.resolve(behind.toSorted((one, other) => compareTexts(one.name, other.name)).slice(0, limit));
    },
    readMark: () => Promise.resolve(JSON.stringify([...kept.values()].map(({ row, isDeleted }) => [row, isDeleted]))),
    findVersion: (name, version) => Promise.resolve(kept.get(name)?.versions[version - 1] ?? null),
    findVersions: (versions) =>
      Promise.resolve(versions.flatMap(({ deployment, version }) => kept.get(deployment)?.versions[version - 1] ?? [])),
    listVersions(name, limit, before = Number.POSITIVE_INFINITY) {
      const versions = kept.get(name)?.versions ?? [];
      return Promise.resolve(
        versions
          .filter(({ version }) => version < before)
          .toReversed()
          .slice(0, limit),
      );
    },
    pause: (name, onPause, nowMs) => change(name, { isPaused: true, onPause, changedAtMs: nowMs }),
    resume: (name, nowMs) => change(name, { isPaused: false, changedAtMs: nowMs }),
    async enable(name, version, nowMs) {
      const found = findOpen(name)?.versions[version - 1];
      if (found === undefined) return null;
      refuseCircle(name, found.triggers);
      return await change(name, { version, changedAtMs: nowMs });
    },
    delete(name) {
      const found = findOpen(name);
      if (found !== null) found.isDeleted = true;
      return Promise.resolve(found !== null);
    },
    hasFolder: (folder) =>
      Promise.resolve([...kept.values()].some(({ versions }) => versions.some((each) => each.folder === folder))),
    listFollowed: (names) => {
      const followed = new Set(listLinks().map(({ upstream }) => upstream));
      return Promise.resolve([...new Set(names)].filter((name) => followed.has(name)));
    },
    listLinks: () => Promise.resolve(listLinks()),
    hasEnabled: () => Promise.resolve([...kept.values()].some(({ row, isDeleted }) => !isDeleted && !row.isPaused)),
  };
}

function compareTexts(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}
