/** What of a machine only some plans need. */
import type { Plan } from '../domain/plan/plan.ts';
import type { OptionalPieceName } from '../setup/piece.ts';

/** Each once; a VM that is simulated needs none. */
export function extrasOf({ scopes }: Pick<Plan, 'scopes'>): readonly OptionalPieceName[] {
  const images = scopes.flatMap(({ sandbox: { mode, image } }) =>
    mode === 'mock' || image?.kind !== 'dev' ? [] : [image.kind],
  );
  return [...new Set(images)];
}
