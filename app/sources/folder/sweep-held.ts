/** Lets prune delete the files of deliveries that can no longer start a run. */
import { PAYLOAD_KEPT_MS } from '../../../domain/delivery/delivery.ts';
import type { HeldArtifacts } from '../../../store/ports/held-artifacts.ts';
import type { DeliveryStore } from '../../../store/triggers.ts';

/** A file is held a day longer than its payload, which names it and can be replayed. */
export const HELD_MS = PAYLOAD_KEPT_MS + 24 * 60 * 60_000;

const PAGE = 200;
const HASH = /"([0-9a-f]{64})"/g;

/**
 * A delivery that is open stays so for any time, for example while its deployment is paused. So its file stays.
 */
export async function sweepHeld(
  held: HeldArtifacts,
  deliveries: Pick<DeliveryStore, 'list' | 'readBody'>,
  nowMs: number,
): Promise<void> {
  const old = await held.listOlder(nowMs - HELD_MS);
  if (old.length === 0) return;
  const named = await listNamed(deliveries);
  for (const sha256 of old) {
    if (named.has(sha256)) await held.hold(sha256);
    else await held.release(sha256);
  }
}

async function listNamed(deliveries: Pick<DeliveryStore, 'list' | 'readBody'>): Promise<ReadonlySet<string>> {
  const named = new Set<string>();
  for (const state of ['accepted', 'held', 'starting'] as const)
    for (let before: number | undefined; ;) {
      const rows = await deliveries.list({ limit: PAGE, state, ...(before === undefined ? {} : { before }) });
      for (const { id } of rows) {
        const body = await deliveries.readBody(id);
        if (body !== null)
          for (const [, sha256] of Buffer.from(body).toString('latin1').matchAll(HASH)) named.add(sha256!);
      }
      if (rows.length < PAGE) break;
      before = rows.at(-1)!.seq;
    }
  return named;
}
