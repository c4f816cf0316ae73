/**
 * Names the uploads of a plan by their content. Each start unpacks its uploads into a new folder, so paths do not show
 * whether two runs use the same files.
 */
import { createMapping } from '../units/mapping.ts';
import { isSha256 } from '../units/sha256.ts';
import type { AgentSkill, MountSource, Plan, ScopePlan, StagePlan } from './plan.ts';

/** The SHA-256 of the upload in each folder of a run, by absolute path. */
export type UploadHashes = Readonly<Record<string, string>>;

/** No path of a host begins with it. */
const PREFIX = 'sha256:';

/** Reads hashes of a mark or record; other entries do not count. */
export function readUploadHashes(value: unknown): UploadHashes {
  const entries = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  return createMapping(
    entries.filter(
      (entry): entry is [string, string] =>
        entry[0].startsWith('/') && typeof entry[1] === 'string' && isSha256(entry[1]),
    ),
  );
}

/**
 * Returns the plan with hashes in the place of paths. A folder keeps its path if a scope mounts some of it `rw`, because
 * the run may have changed it, and if another upload lies within it.
 */
export function nameUploads(plan: Plan, uploads: UploadHashes): Plan {
  const folders = Object.keys(uploads).toSorted((one, other) => other.length - one.length);
  if (folders.length === 0) return plan;
  const writable = plan.scopes.flatMap(({ sandbox }) =>
    sandbox.mounts.flatMap(({ source, mode }) => (mode === 'ro' ? [] : [source.path])),
  );
  const name = (path: string): string => {
    const folder = folders.find((each) => isWithin(path, each));
    if (folder === undefined) return path;
    const isShared = folders.some((other) => other !== path && other !== folder && isWithin(other, path));
    const isWritten = writable.some((other) => isWithin(other, folder) || isWithin(folder, other));
    return isShared || isWritten ? path : `${PREFIX}${uploads[folder]}${path.slice(folder.length)}`;
  };
  return {
    ...plan,
    scopes: plan.scopes.map((scope) => replaceInScope(scope, name)),
    stages: plan.stages.map((stage) => replaceInStage(stage, name)),
  };
}

type Name = (path: string) => string;

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

function nameSource(source: MountSource, name: Name): MountSource {
  return source.kind === 'host' ? { kind: 'host', path: name(source.path) } : source;
}

function replaceInScope(scope: ScopePlan, name: Name): ScopePlan {
  const { sandbox } = scope;
  const mounts = sandbox.mounts.map((mount) => ({ ...mount, source: nameSource(mount.source, name) }));
  return { ...scope, sandbox: { ...sandbox, mounts } };
}

function replaceInStage(stage: StagePlan, name: Name): StagePlan {
  const { work, workspace } = stage;
  const nameSkill = (skill: AgentSkill): AgentSkill =>
    skill.kind === 'file' ? { ...skill, source: nameSource(skill.source, name) } : skill;
  return {
    ...stage,
    ...(workspace?.from.kind === 'folder'
      ? { workspace: { ...workspace, from: { ...workspace.from, source: nameSource(workspace.from.source, name) } } }
      : {}),
    ...(work.kind === 'agent' || work.kind === 'skill'
      ? { work: { ...work, skills: work.skills.map(nameSkill) } }
      : {}),
  };
}
