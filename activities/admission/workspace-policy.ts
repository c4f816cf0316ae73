/** Decides which repositories a run may work in: at admission, and again when a repository is packed. */
import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Plan, WorkspaceSource } from '../../domain/plan/plan.ts';
import { allowsGitPlace, toGitPlace } from '../../domain/plan/git-place.ts';
import { findRepositoryAround } from '../../files/find-repository.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { ActivityDeps, MountPolicy } from '../deps.ts';
import { selectAllowedRoots, isInside, resolveRoots, specFolderOf } from './mount-policy.ts';
import type { RepositoryToPack } from '../ports/repositories.ts';
import { describeConfined, isConfined, type Starter } from '../ports/starters.ts';

type PolicyDeps = Pick<ActivityDeps, 'starters' | 'mountPolicy'>;

/**
 * Allows the folders that runs may mount, and the repository that contains the spec. URLs are fetched with the
 * credentials of the worker's user, so the owner of the run or the worker must allow each of them.
 * @param source the source of a workspace that does not come from an earlier stage
 * @throws CodedError `admit/mount-refused`
 */
export async function repositoryOf(
  deps: PolicyDeps,
  runId: string,
  stage: string,
  source: Exclude<WorkspaceSource, { readonly kind: 'stage' }>,
): Promise<RepositoryToPack> {
  const starter = await deps.starters.starterOf(runId);
  const { ref } = source;
  if (source.kind === 'url') {
    refuseAddress(source.url, stage, selectAllowedGit(starter, deps.mountPolicy), starter);
    return { kind: 'url', url: source.url, ref };
  }
  const baseDir = specFolderOf(starter);
  const path = source.source.kind === 'host' ? source.source.path : null;
  if (path === null && baseDir === null)
    throw createRefusal(
      stage,
      source.source.path,
      "it lies in the spec's folder, but the run has no spec folder on this host",
    );
  const written = path ?? join(baseDir!, source.source.path);
  const folder = await realpath(written).catch(() => null);
  if (folder === null) throw createRefusal(stage, written, 'it is not on the host that runs it');
  const allowedRoots = selectAllowedRoots(starter, deps.mountPolicy);
  // The repository around the files of a token or of a deployment is the owner's.
  const repository = baseDir === null || isConfined(starter) ? null : findRepositoryAround(baseDir);
  const roots = await resolveRoots(repository === null ? allowedRoots : [...allowedRoots, repository]);
  const mayRead = (found: string): boolean => roots.some((root) => isInside(found, root));
  if (!mayRead(folder))
    throw createRefusal(
      stage,
      written,
      isConfined(starter)
        ? `a run of ${describeConfined(starter)} works in uploaded repositories only`
        : allowedRoots.length === 0
          ? 'this worker allows no host folders'
          : `this worker allows ${allowedRoots.join(', ')}; allow it with --allow-mounts`,
    );
  return { kind: 'folder', folder, ref, includeDirty: source.includeDirty, mayRead };
}

function selectAllowedGit(starter: Starter, { allowedGit = [] }: MountPolicy): readonly string[] {
  switch (starter.kind) {
    case 'any':
    case 'unknown':
      return allowedGit;
    case 'owner':
      return [...allowedGit, ...starter.allowGit];
    case 'token':
    case 'deployment':
      return starter.allowGit;
  }
}

/** Rejects a URL that nothing allows: git would fetch it with the credentials of the worker's user. */
function refuseAddress(url: string, stage: string, allowed: readonly string[], { kind }: Starter): void {
  const place = toGitPlace(url);
  if (place !== null && allowsGitPlace(allowed, place)) return;
  throw createRefusal(
    stage,
    url,
    place === null
      ? 'it has `..`, an encoded dot or slash, or a query, so the server could serve another repository'
      : kind === 'token'
        ? `git would fetch it with the login of the worker's user, and the token does not allow it: create one with --allow-git ${place}`
        : kind === 'deployment'
          ? `git would fetch it with the login of the worker's user; allow it with \`voidbox deploy FILE --allow-git ${place}\``
          : `git would fetch it with the login of the worker's user; allow it with \`voidbox run FILE --allow-git ${place}\`, or on your own server with \`voidbox worker --allow-git ${place}\`; or clone it, and name the folder`,
  );
}

/** @throws CodedError `admit/mount-refused` */
export async function refuseRepositories(deps: PolicyDeps, runId: string, { stages }: Plan): Promise<void> {
  for (const { id, workspace } of stages)
    if (workspace !== undefined && workspace.from.kind !== 'stage') await repositoryOf(deps, runId, id, workspace.from);
}

function createRefusal(stage: string, what: string, why: string): CodedError {
  return new CodedError(
    'admit/mount-refused',
    `the workspace ${sanitizeLine(what)} of stage ${stage} is refused: ${why}`,
  );
}
