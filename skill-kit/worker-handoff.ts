/**
 * A skill's own script, loaded by whoever runs its code elsewhere (a process of a worker): what it would serve is handed over, and
 * nothing is served. By a global name, for script and host may hold different copies of this file.
 */
import type { ReferenceDefinition, SkillDefinition } from '../domain/step-machine/definition.ts';

export type Offered = SkillDefinition | ReferenceDefinition;

const HOST = Symbol.for('voidbox.skill-host');

interface HostGlobal {
  [HOST]?: (definition: Offered) => void;
}

/** From here on every `main` in this process hands its definition to `take` instead of serving it. */
export function receiveOffers(take: (definition: Offered) => void): void {
  (globalThis as HostGlobal)[HOST] = take;
}

/** False when nobody takes it: this process is the skill's own. */
export function offerToWorker(definition: Offered): boolean {
  const take = (globalThis as HostGlobal)[HOST];
  take?.(definition);
  return take !== undefined;
}
