/**
 * Finds workspaces of a plan whose repository a run would refuse when it packs it. `validate` reports them, so that a
 * mistake costs no run.
 */
import { realpath } from 'node:fs/promises';
import { readAllowedMounts } from '../../client/embedded/allowed-mounts.ts';
import { contains } from '../../domain/language/text/paths.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { listSpecFolders } from '../../files/find-repository.ts';
import { findRepositoryProblem } from '../../git/pack-repository.ts';
import { GitError } from '../../git/run-git.ts';
import type { Environment } from '../../setup/environment.ts';

export interface UnusableRepository {
  /** The path in the plan, absolute. */
  readonly hostPath: string;
  /** The code with which a run fails. */
  readonly code: 'workspace/unusable' | 'host/not-ready';
  readonly message: string;
}

/**
 * @param refused  paths that this host refuses for another reason
 * @returns each repository once, with the first stage that works in it
 */
export async function findUnusableRepositories(
  { stages }: Plan,
  { baseDir, refused }: { readonly baseDir: string; readonly refused: ReadonlySet<string> },
  { path, stateDir }: Pick<Environment, 'path' | 'stateDir'>,
): Promise<readonly UnusableRepository[]> {
  const stageOf = new Map<string, string>();
  for (const { id, workspace } of stages)
    if (workspace?.from.kind === 'folder') {
      const { path: hostPath } = workspace.from.source;
      if (!refused.has(hostPath) && !stageOf.has(hostPath)) stageOf.set(hostPath, id);
    }
  if (stageOf.size === 0) return [];
  const allowed = [...listSpecFolders(baseDir), ...readAllowedMounts(stateDir)];
  const roots = await Promise.all(allowed.map((root) => realpath(root).catch(() => null)));
  const mayRead = (found: string): boolean => roots.some((root) => root !== null && contains(root, found));
  const unusable: UnusableRepository[] = [];
  for (const [hostPath, stage] of stageOf) {
    const problem = await findProblem(hostPath, stage, { path, mayRead });
    if (problem !== null) unusable.push({ hostPath, ...problem });
  }
  return unusable;
}

async function findProblem(
  hostPath: string,
  stage: string,
  { path, mayRead }: { readonly path: string; readonly mayRead: (found: string) => boolean },
): Promise<Pick<UnusableRepository, 'code' | 'message'> | null> {
  try {
    const problem = await findRepositoryProblem({ path, home: null }, { folder: await realpath(hostPath), mayRead });
    if (problem === null) return null;
    const message = sanitizeLine(`the workspace of stage ${stage} cannot be packed: ${problem}`);
    return { code: 'workspace/unusable', message };
  } catch (error) {
    if (!(error instanceof GitError) || error.reason !== 'missing') throw error;
    return { code: 'host/not-ready', message: 'the PATH has no program `git`: install git on this host' };
  }
}
