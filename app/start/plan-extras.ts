/** The pieces of a machine that only some plans need. */
import { agentPartsOf } from '../../domain/agent/agent-cli.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import type { OptionalPieceName } from '../../setup/pieces/piece.ts';

/** Each piece once. Simulated VMs need no piece, and mocked agents add none. */
export function extrasOf({ scopes, stages }: Pick<Plan, 'scopes' | 'stages'>): readonly OptionalPieceName[] {
  const extras = scopes.flatMap((scope): readonly OptionalPieceName[] => {
    if (scope.sandbox.mode === 'mock') return [];
    const { layers, image } = agentPartsOf(scope, stages);
    const program = scope.sandbox.mode === 'vmm' ? (['vmm'] as const) : [];
    return [...program, ...(image?.kind === 'dev' ? [image.kind] : []), ...layers];
  });
  return [...new Set(extras)];
}
