/** Which mounts of a plan this host would refuse. The worker decides at admission; this tells its decision before a run is started. */
import { realpath } from 'node:fs/promises';
import type { Plan } from '../domain/plan/plan.ts';
import { contains } from '../domain/spec/paths.ts';

export interface RefusedMount {
  /** As the plan has it: absolute. */
  readonly hostPath: string;
  /** Scopes that mount it; empty: a stage works in it as a repository. */
  readonly scopes: readonly string[];
  /** `missing`: it cannot be read on this host. `elsewhere`: it leads to no folder that is allowed. */
  readonly why: 'missing' | 'elsewhere';
  /** Where it leads; for `missing`, why it cannot be read. */
  readonly detail: string;
}

/** @param roots  folders that runs may mount from, that of the spec among them */
export async function refusedMounts(plan: Plan, roots: readonly string[]): Promise<readonly RefusedMount[]> {
  const scopes = new Map<string, string[]>();
  for (const { id, sandbox } of plan.scopes)
    for (const { source } of sandbox.mounts) scopes.set(source.path, [...(scopes.get(source.path) ?? []), id]);
  for (const { workspace } of plan.stages)
    if (workspace?.from.kind === 'folder' && !scopes.has(workspace.from.source.path))
      scopes.set(workspace.from.source.path, []);
  if (scopes.size === 0) return [];
  const realRoots = await Promise.all(roots.map((root) => realpath(root).catch(() => null)));
  const refused: RefusedMount[] = [];
  for (const [hostPath, ids] of scopes) {
    const common = { hostPath, scopes: [...new Set(ids)] };
    try {
      const real = await realpath(hostPath);
      if (!realRoots.some((root) => root !== null && contains(root, real)))
        refused.push({ ...common, why: 'elsewhere', detail: real });
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      refused.push({ ...common, why: 'missing', detail: code === 'ENOENT' ? 'it does not exist' : message });
    }
  }
  return refused;
}
