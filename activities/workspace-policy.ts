/** Which repositories a run may work in: decided at admission, and again when one is packed. */
import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { Plan, WorkspaceSource } from '../domain/plan/plan.ts';
import { sanitizeLine } from '../domain/security/sanitize.ts';
import type { ActivityDeps } from './deps.ts';
import { allowedRootsOf, isInside, resolvedRoots, specFolder } from './mount-policy.ts';
import type { RepositoryToPack } from './ports/repositories.ts';

type PolicyDeps = Pick<ActivityDeps, 'marks' | 'mountPolicy'>;

/**
 * The same folders that runs may mount. Addresses are fetched with the credentials of the worker's user, so only for runs that
 * this user started: those for which the client left its mark in the state folder.
 * @param source  null: the workspace of an earlier stage
 * @throws CodedError `admit/mount-refused`
 */
export async function repositoryOf(
  deps: PolicyDeps,
  runId: string,
  stage: string,
  source: Exclude<WorkspaceSource, { readonly kind: 'stage' }>,
): Promise<RepositoryToPack> {
  const baseDir = deps.mountPolicy.specFolder ? await specFolder(deps.marks, runId) : null;
  const { ref } = source;
  if (source.kind === 'url') {
    if (baseDir !== null) return { kind: 'url', url: source.url, ref };
    throw refused(
      stage,
      source.url,
      'addresses are fetched with the credentials of the user of the worker, so only for runs that this user starts with `voidbox run` on the embedded server; clone it, and name the folder',
    );
  }
  const path = source.source.kind === 'host' ? source.source.path : null;
  if (path === null && baseDir === null)
    throw refused(stage, source.source.path, "it lies in the spec's folder, and this host was given none");
  const written = path ?? join(baseDir!, source.source.path);
  const folder = await realpath(written).catch(() => null);
  if (folder === null) throw refused(stage, written, 'it is not on the host that runs it');
  const allowedRoots = await allowedRootsOf(deps, runId);
  const roots = await resolvedRoots(allowedRoots);
  const mayRead = (found: string): boolean => roots.some((root) => isInside(found, root));
  if (!mayRead(folder))
    throw refused(
      stage,
      written,
      allowedRoots.length === 0
        ? 'this worker allows no host folders'
        : `this worker allows ${allowedRoots.join(', ')}; allow it with --allow-mounts`,
    );
  return { kind: 'folder', folder, ref, includeDirty: source.includeDirty, mayRead };
}

/** @throws CodedError `admit/mount-refused` */
export async function refuseRepositories(deps: PolicyDeps, runId: string, { stages }: Plan): Promise<void> {
  for (const { id, workspace } of stages)
    if (workspace !== undefined && workspace.from.kind !== 'stage') await repositoryOf(deps, runId, id, workspace.from);
}

function refused(stage: string, what: string, why: string): CodedError {
  return new CodedError(
    'admit/mount-refused',
    `the workspace ${sanitizeLine(what)} of stage ${stage} is refused: ${why}`,
  );
}
