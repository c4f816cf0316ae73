/** Which calls give a name that an earlier one has given. */
import type { NamedCall } from './builders.ts';

export function findRepeated<Call extends NamedCall>(
  calls: readonly Call[],
): readonly (Call & { readonly name: string })[] {
  const seen = new Set<string>();
  return calls.filter((call): call is Call & { readonly name: string } => {
    if (call.name === null) return false;
    const isKnown = seen.has(call.name);
    seen.add(call.name);
    return isKnown;
  });
}
