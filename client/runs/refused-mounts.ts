/**
 * Lists the mounts of a plan that this host would reject. The worker decides at admission; this predicts its decision.
 */
import { readdir, realpath } from 'node:fs/promises';
import type { Plan } from '../../domain/plan/plan.ts';
import { findRepositoryAround } from '../../files/find-repository.ts';
import { contains } from '../../domain/language/text/paths.ts';

export interface RefusedMount {
  /** The path in the plan, absolute. */
  readonly hostPath: string;
  /** Scopes that mount it; empty: a stage works in it as a repository. */
  readonly scopes: readonly string[];
  /**
   * `missing`: it cannot be read on this host. `elsewhere`: it leads to no folder that is allowed. `subfolder`: a stage works in
   * it, and it is a folder within a repository.
   */
  readonly why: 'missing' | 'elsewhere' | 'subfolder';
  /** The resolved path; for `missing`, why it cannot be read; for `subfolder`, the top folder of the repository. */
  readonly detail: string;
}

/**
 * @param roots  folders that runs may mount from, that of the spec among them
 * @param baseDir  that of the spec: stages may work in the repository that holds it
 */
export async function findRefusedMounts(
  plan: Plan,
  roots: readonly string[],
  baseDir: string,
): Promise<readonly RefusedMount[]> {
  const scopes = new Map<string, string[]>();
  for (const { id, sandbox } of plan.scopes)
    for (const { source } of sandbox.mounts) scopes.set(source.path, [...(scopes.get(source.path) ?? []), id]);
  for (const { workspace } of plan.stages)
    if (workspace?.from.kind === 'folder' && !scopes.has(workspace.from.source.path))
      scopes.set(workspace.from.source.path, []);
  if (scopes.size === 0) return [];
  const realRoots = await Promise.all(roots.map((root) => realpath(root).catch(() => null)));
  const repository = findRepositoryAround(baseDir);
  const refused: RefusedMount[] = [];
  for (const [hostPath, ids] of scopes) {
    const common = { hostPath, scopes: [...new Set(ids)] };
    try {
      const real = await realpath(hostPath);
      const isWorkspace = ids.length === 0;
      const mayRead = isWorkspace && repository !== null ? [...realRoots, repository] : realRoots;
      const top = isWorkspace ? await findTopOf(real) : null;
      if (!mayRead.some((root) => root !== null && contains(root, real)))
        refused.push({ ...common, why: 'elsewhere', detail: real });
      else if (top !== null) refused.push({ ...common, why: 'subfolder', detail: top });
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      refused.push({ ...common, why: 'missing', detail: code === 'ENOENT' ? 'it does not exist' : message });
    }
  }
  return refused;
}

/** Returns the repository that contains a folder; null if it is a repository itself, or is in no repository. */
async function findTopOf(folder: string): Promise<string | null> {
  const names = new Set(await readdir(folder).catch(() => []));
  const isBare = names.has('HEAD') && names.has('objects') && names.has('refs');
  return names.has('.git') || isBare ? null : findRepositoryAround(folder);
}
