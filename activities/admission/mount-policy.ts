/** Decides which host folders a run may use: at admission, and again before each launch of a VM of the run. */
import { realpath } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { MountMode, MountSource, Plan, ScopePlan } from '../../domain/plan/plan.ts';
import type { ActivityDeps, MountPolicy } from '../deps.ts';
import { describeConfined, isConfined, type Starter } from '../ports/starters.ts';
import type { AdmittedScope } from '../calls/requests.ts';
import { createMapping } from '../../domain/units/mapping.ts';

/**
 * Resolves links in the folders and in the allowed roots, so that a link inside an allowed folder does not lead out of
 * it.
 * @param baseDir the spec's folder on this host; null if the client handed over no folder
 * @returns the resolved folder by the path of the plan's source; relative paths are paths in the spec's folder
 * @throws CodedError `admit/mount-refused`
 */
export async function resolveMounts(
  plan: Plan,
  allowedRoots: readonly string[],
  baseDir: string | null,
): Promise<Readonly<Record<string, string>>> {
  const resolved: Record<string, string> = createMapping();
  const roots = await resolveRoots(allowedRoots);
  for (const scope of plan.scopes)
    for (const { source } of scope.sandbox.mounts)
      resolved[source.path] = await requireAllowed(
        scope.id,
        hostPathOf(scope.id, source, baseDir),
        allowedRoots,
        roots,
      );
  for (const scope of plan.scopes) refuseSharedFiles(scope, resolved);
  return resolved;
}

function hostPathOf(scope: string, source: MountSource, baseDir: string | null): string {
  switch (source.kind) {
    case 'host':
      return source.path;
    case 'spec-folder':
      if (baseDir !== null) return join(baseDir, source.path);
      throw new CodedError(
        'admit/mount-refused',
        `scope ${scope} mounts ${source.path} from the spec's folder, but the run has no spec folder on this host`,
      );
  }
}

/** Only this check can see that two names mean one folder: a link, or the spec's folder and its absolute path. */
function refuseSharedFiles({ id, sandbox: { mounts } }: ScopePlan, resolved: Readonly<Record<string, string>>): void {
  mounts.forEach((mount, position) => {
    const path = resolved[mount.source.path]!;
    for (const other of mounts.slice(0, position)) {
      const otherPath = resolved[other.source.path]!;
      if ((mount.mode === 'ro' && other.mode === 'ro') || !(isInside(path, otherPath) || isInside(otherPath, path)))
        continue;
      throw new CodedError(
        'admit/mount-refused',
        `scope ${id} has a writable mount that shares files with another: ${mount.source.path} and ${other.source.path} lead to ${path} and ${otherPath}`,
      );
    }
  });
}

/**
 * Checks the mounts again before a VM is launched. Since admission, the worker may have been restarted with another
 * policy, and a folder on an admitted path may have become a link.
 * @throws CodedError `admit/mount-refused`
 */
export async function confirmMounts(
  deps: Pick<ActivityDeps, 'starters' | 'mountPolicy'>,
  runId: string,
  scope: AdmittedScope,
): Promise<void> {
  if (scope.sandbox.mounts.length === 0) return;
  const starter = await deps.starters.starterOf(runId);
  refuseWritableMounts(starter, [scope]);
  const allowedRoots = selectAllowedRoots(starter, deps.mountPolicy);
  const roots = await resolveRoots(allowedRoots);
  for (const { hostPath } of scope.sandbox.mounts) {
    const real = await requireAllowed(scope.id, hostPath, allowedRoots, roots);
    if (real !== hostPath)
      throw new CodedError(
        'admit/mount-refused',
        `the mount ${hostPath} of scope ${scope.id} leads to ${real} since the run was admitted: start the run again`,
      );
  }
}

/**
 * Returns the folders that a run may use: those that the worker's options allow, and those that the run's owner
 * allowed. A run with an unknown starter may use no folder.
 */
export function selectAllowedRoots(starter: Starter, { allowedRoots }: MountPolicy): readonly string[] {
  switch (starter.kind) {
    case 'any':
      return allowedRoots;
    case 'unknown':
      return [];
    case 'owner':
      return [...allowedRoots, starter.baseDir, ...starter.allow];
    case 'token':
      return [starter.baseDir];
    case 'deployment':
      return [starter.baseDir, ...starter.allow];
  }
}

/**
 * A run of a token or of a deployment changes no folder of this host, not even its own one.
 * @throws CodedError `admit/mount-refused`
 */
export function refuseWritableMounts(starter: Starter, scopes: readonly MountingScope[]): void {
  if (!isConfined(starter)) return;
  for (const { id, sandbox } of scopes)
    if (sandbox.mounts.some(({ mode }) => mode !== 'ro'))
      throw new CodedError(
        'admit/mount-refused',
        `scope ${id} has a mount with \`mode: rw\`, and a run of ${describeConfined(starter)} mounts only \`ro\``,
      );
}

interface MountingScope {
  readonly id: string;
  readonly sandbox: { readonly mounts: readonly { readonly mode: MountMode }[] };
}

/** Returns the spec's folder on this host, for others than the owner that of its files; null if no mark proves it. */
export function specFolderOf(starter: Starter): string | null {
  return 'baseDir' in starter ? starter.baseDir : null;
}

export async function resolveRoots(allowedRoots: readonly string[]): Promise<readonly string[]> {
  const roots = await Promise.all(allowedRoots.map((root) => realpath(root).catch(() => null)));
  return roots.filter((root) => root !== null);
}

async function requireAllowed(
  scope: string,
  hostPath: string,
  allowedRoots: readonly string[],
  roots: readonly string[],
): Promise<string> {
  const real = await realpath(hostPath).catch(() => null);
  if (real === null)
    throw new CodedError(
      'admit/mount-refused',
      `the mount ${hostPath} of scope ${scope} is not on the host that runs it`,
    );
  if (roots.some((root) => isInside(real, root))) return real;
  const policy =
    allowedRoots.length === 0 ? 'this worker allows no host folders' : `this worker allows ${allowedRoots.join(', ')}`;
  throw new CodedError('admit/mount-refused', `the mount ${hostPath} of scope ${scope} is refused: ${policy}`);
}

export function isInside(path: string, root: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}
