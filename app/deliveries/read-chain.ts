/** Reads the deliveries that led to one by the ends of their runs. */
import { nameRunOf } from '../../domain/delivery/decide.ts';
import type { DeliveryRow, TriggerStore } from '../../store/triggers.ts';
import type { Caller } from '../access/authenticate.ts';
import { mayCallerSee } from '../access/visible-runs.ts';

/** A delivery whose run has ended, and the run. Null: the caller may not see the run. */
export interface ChainLink {
  readonly delivery: string | null;
  readonly deployment: string | null;
  readonly runId: string | null;
}

const HIDDEN: ChainLink = { delivery: null, deployment: null, runId: null };

/** Returns the first one first. A delivery that is deleted is the beginning. */
export async function readChain(
  { upstream }: Pick<DeliveryRow, 'upstream'>,
  caller: Caller,
  { deliveries }: Pick<TriggerStore, 'deliveries'>,
): Promise<readonly ChainLink[]> {
  const chain: ChainLink[] = [];
  for (let at = upstream; at !== null;) {
    const { delivery, deployment, runId, links } = at;
    chain.unshift(
      mayCallerSee(caller, nameRunOf({ deployment, id: delivery })) ? { delivery, deployment, runId } : HIDDEN,
    );
    const before = (await deliveries.find(delivery))?.upstream ?? null;
    // Each link has a lower number, so that a damaged row ends the loop.
    at = before !== null && before.links < links ? before : null;
  }
  return chain;
}
