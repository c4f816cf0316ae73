import type { Buildable } from '../../domain/step-machine/definition.ts';

/** Returns a skill entry's default export if the builders made it; otherwise the reason why it cannot be built. */
export function toBuildable(found: unknown): Buildable | string {
  const { kind, build } = (found ?? {}) as { readonly kind?: unknown; readonly build?: unknown };
  if (kind === 'skill' || kind === 'reference') return found as Buildable;
  return typeof build === 'function'
    ? 'exports a builder by default: its `.build()` is missing'
    : 'has a default export that is not a built skill or reference; write `export default skill({ … }).step(…).build();`';
}
