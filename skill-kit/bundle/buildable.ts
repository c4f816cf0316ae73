import type { Buildable } from '../../domain/step-machine/definition.ts';

/** What a skill's entry exports by default, when it is what the builders make; else what is wrong with it. */
export function toBuildable(found: unknown): Buildable | string {
  const { kind, build } = (found ?? {}) as { readonly kind?: unknown; readonly build?: unknown };
  if (kind === 'skill' || kind === 'reference') return found as Buildable;
  return typeof build === 'function'
    ? 'exports a builder by default: its `.build()` is missing'
    : 'has a default export that is not a built skill or reference; write `export default skill({ … }).step(…).build();`';
}
