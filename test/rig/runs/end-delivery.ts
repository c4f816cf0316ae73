/** Does what a service does with a delivery, without a server of runs: it decides, and the run has ended at once. */
import { setTimeout as sleep } from 'node:timers/promises';
import { createDecide } from '../../../domain/delivery/decide.ts';
import type { RunOutcome } from '../../../domain/run/event.ts';
import type { Stores } from '../../../store/stores.ts';
import type { DeliveryStore } from '../../../store/triggers.ts';
import { WEBHOOK } from '../../conformance/deployments.ts';

const LEASE_MS = 60_000;
const KEYS = { dedupe: null, debounce: null, batch: null, rate: null, order: null };
const PAUSE_MS = 5;

export interface DeliveredEnd {
  /** Whether `when` of the trigger holds; by default true. */
  readonly holds?: boolean;
  readonly state?: RunOutcome['state'];
  /** Null or absent: the run has no output. */
  readonly output?: string | null;
}

/** Waits for the next delivery that has its outcome, or whose run starts. */
export async function endNextDelivery(
  { deliveries, stores }: { readonly deliveries: DeliveryStore; readonly stores: Stores },
  { holds = true, state = 'succeeded', output = null }: DeliveredEnd,
): Promise<void> {
  const decide = createDecide({ trigger: WEBHOOK, evaluation: { holds, params: {}, input: null, keys: KEYS } });
  for (;;) {
    const claim = { token: 'a', nowMs: Date.now() + 1_000, leaseMs: LEASE_MS };
    const [row] = await deliveries.claim({ ...claim, limit: 1 });
    const decided =
      row === undefined
        ? null
        : await deliveries.decide({ ...claim, id: row.id, trigger: WEBHOOK, keys: KEYS, decide });
    if (decided?.state === 'starting') {
      await appendEnd(decided.runId!, { state, output }, stores);
      await deliveries.record({ id: decided.id, token: 'a' }, { kind: 'started' }, claim.nowMs);
    }
    if (decided !== null && decided.state !== 'held') return;
    await sleep(PAUSE_MS);
  }
}

async function appendEnd(
  runId: string,
  { state, output }: { readonly state: RunOutcome['state']; readonly output: string | null },
  { artifacts, events }: Stores,
): Promise<void> {
  const ref = output === null ? null : await artifacts.put(chunksOf(output), 'text/html');
  const outcome = { state, failedStage: state === 'failed' ? 'a' : null, failure: null, output: ref };
  await events.append(runId, [{ id: 'run/finished', atMs: Date.now(), body: { type: 'run-finished', outcome } }]);
}

async function* chunksOf(text: string): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(Buffer.from(text));
}
