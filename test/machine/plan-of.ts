import type { Plan, StagePlan } from '../../domain/plan/plan.ts';

/** Plans for tests, from one line: `a b>a c>a,b` are stages with their dependencies; `a:2` has two attempts. */
export function planOf(
  text: string,
  options: { readonly shared?: string; readonly maxParallel?: number; readonly backoffMs?: number; readonly carry?: boolean; readonly merge?: string } = {},
): Plan {
  const shared = new Set((options.shared ?? '').split(' ').filter((id) => id !== ''));
  const stages = text.split(' ').map((part): StagePlan => {
    const [head, deps] = part.split('>');
    const [id, attempts] = head!.split(':');
    const dependsOn = deps === undefined ? [] : deps.split(',');
    return {
      id: id!,
      scope: shared.has(id!) ? '_shared' : id!,
      dependsOn,
      run: { program: 'true', args: [], cwd: '/workspace', env: [] },
      stdin: { kind: 'none' },
      input: options.carry === true && dependsOn.length > 0 ? { kind: 'merge', stages: dependsOn } : { kind: 'none' },
      inputs: [],
      outputs: [],
      outputFile: null,
      timeoutMs: 1_000,
      retry: { maxAttempts: Number(attempts ?? '1'), backoffMs: options.backoffMs ?? 0 },
      maxOutputBytes: 1_024,
    };
  });
  const sandbox = { mode: 'auto', isolation: 'microvm', memoryMib: 128, vcpus: 1, diskMib: 64, mounts: [] } as const;
  const scopes = [...new Set(stages.map(({ scope }) => scope))].map((id) => ({
    id,
    stages: stages.filter(({ scope }) => scope === id).map((stage) => stage.id),
    sandbox,
  }));
  return {
    version: 1,
    kind: 'workflow',
    name: 'test',
    stages,
    scopes,
    output: options.merge === undefined ? { kind: 'stage', stage: stages.at(-1)!.id } : { kind: 'merge', stages: options.merge.split(' ') },
    maxParallel: options.maxParallel ?? 8,
    hostVariables: [],
  };
}
