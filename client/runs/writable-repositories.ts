/** Which writable mounts of a plan hold a repository of git on this host. */
import { lstat, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { Plan } from '../../domain/plan/plan.ts';
import { isDotGit, isRepositoryLayout, REPOSITORY_PARTS } from '../../domain/security/git-names.ts';

export interface WritableRepository {
  /** The path in the plan. */
  readonly hostPath: string;
  /** Whether a copy back writes the repository's own files. */
  readonly git: 'protected' | 'writable';
}

/** Checks only the top folders of mounts, not repositories further below. */
export async function findWritableRepositories(plan: Plan): Promise<readonly WritableRepository[]> {
  const found = new Map<string, WritableRepository>();
  for (const { mode, source, git = 'protected' } of plan.scopes.flatMap(({ sandbox }) => sandbox.mounts))
    if (mode === 'rw' && !found.has(source.path) && (await isRepository(source.path)))
      found.set(source.path, { hostPath: source.path, git });
  return [...found.values()];
}

async function isRepository(path: string): Promise<boolean> {
  const folder = await realpath(path).catch(() => null);
  if (folder === null) return false;
  if (folder.split('/').some(isDotGit) || (await isThere(join(folder, '.git')))) return true;
  const parts = await Promise.all(
    REPOSITORY_PARTS.map(async (part) => ((await isThere(join(folder, part))) ? part : null)),
  );
  return isRepositoryLayout(new Set(parts.filter((part) => part !== null)));
}

function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}
