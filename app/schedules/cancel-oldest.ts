/** Cancels the oldest open run of a schedule for a delivery that waits for its end (`overlap: cancel_oldest`). */
import { mayCancelOldest } from '../../domain/delivery/scheduled.ts';
import type { Trigger } from '../../domain/delivery/trigger.ts';
import type { DeliveryRow, TriggerStore } from '../../store/triggers.ts';
import type { Machine } from '../machine.ts';
import { cancelFoundRun } from '../runs/cancel-run.ts';

export type CancelRun = (runId: string) => Promise<void>;

/**
 * A process that dies before the cancel leaves nothing undone: the delivery is decided again after some seconds, and a
 * run that is cancelled twice keeps its stages with `finally`.
 */
export async function cancelOldest(
  delivery: DeliveryRow,
  trigger: Trigger,
  { deliveries }: Pick<TriggerStore, 'deliveries'>,
  cancelRun: CancelRun,
): Promise<void> {
  if (delivery.hold !== 'overlap' || !mayCancelOldest(trigger, delivery)) return;
  const runId = await deliveries.findOldestRun(delivery);
  if (runId !== null) await cancelRun(runId);
}

export function createRunCanceller(machine: Machine, log: (line: string) => void): CancelRun {
  return async (runId) => {
    try {
      await cancelFoundRun(runId, { waitMs: 0, keepsFinally: true, onProgress: log }, machine);
    } catch (error) {
      log(`run ${runId}: ${(error as Error).message}`);
    }
  };
}
