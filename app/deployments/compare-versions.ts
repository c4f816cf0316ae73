/** The changes that a new version of a deployment makes. */
import type { Trigger } from '../../domain/delivery/trigger.ts';
import { toCanonicalJson } from '../../domain/units/canonical-json.ts';
import type { NewVersion } from '../../store/triggers.ts';

export interface NamedChanges {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
}

export interface VersionChanges {
  /** Ids of stages. */
  readonly stages: NamedChanges;
  /** Names of triggers, schedules and webhooks among them. */
  readonly triggers: NamedChanges;
  /** Whether files, parameters, notifications or permissions change. */
  readonly others: readonly ('files' | 'params' | 'notify' | 'mockAgents' | 'allowMounts' | 'allowGit')[];
}

/** @param before  null: the version is the first */
export function compareVersions(before: NewVersion | null, after: NewVersion): VersionChanges {
  return {
    stages: compareNamed(listStages(before), listStages(after)),
    triggers: compareNamed(listTriggers(before), listTriggers(after)),
    others: before === null ? [] : OTHERS.filter((key) => hasChanged(before, after, key)),
  };
}

const OTHERS = ['files', 'params', 'notify', 'mockAgents', 'allowMounts', 'allowGit'] as const;

function hasChanged(before: NewVersion, after: NewVersion, key: (typeof OTHERS)[number]): boolean {
  const own = toCanonicalJson(before[key]) !== toCanonicalJson(after[key]);
  return own || (key === 'files' && toCanonicalJson(before.bundles) !== toCanonicalJson(after.bundles));
}

function listStages(version: NewVersion | null): ReadonlyMap<string, string> {
  return new Map(version?.stages.map(({ id, hash }) => [id, hash]));
}

function listTriggers(version: NewVersion | null): ReadonlyMap<string, string> {
  return new Map(version?.triggers.map((trigger: Trigger) => [trigger.name, toCanonicalJson(trigger)]));
}

function compareNamed(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): NamedChanges {
  return {
    added: [...after.keys()].filter((name) => !before.has(name)),
    removed: [...before.keys()].filter((name) => !after.has(name)),
    changed: [...after].filter(([name, text]) => before.has(name) && before.get(name) !== text).map(([name]) => name),
  };
}
