/**
 * Lets a worker's process load a skill's own script: the script hands its definition over and serves nothing. The
 * receiver has a global name, because script and worker may hold different copies of this file.
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

/** False if no worker receives it, because this process is the skill's own. */
export function offerToWorker(definition: Offered): boolean {
  const take = (globalThis as HostGlobal)[HOST];
  take?.(definition);
  return take !== undefined;
}
