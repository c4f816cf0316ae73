/** Calls between the services of one database: each wakes the pumps of all, so that none waits for its next look. */
import type { DeliveryStore } from '../../store/triggers.ts';

type Waking = Pick<DeliveryStore, 'wake' | 'listen'>;

export interface WakeCalls {
  /** Begins to listen, unless it does. A failure is tried again at the next call. It never throws. */
  keepListening(deliveries: Waking): void;
  /** Wakes this process at once, and the others. It never throws. */
  wake(): void;
  close(): Promise<void>;
}

export interface WakeCallsOptions {
  readonly onWake: () => void;
  readonly log: (line: string) => void;
}

export function createWakeCalls({ onWake, log }: WakeCallsOptions): WakeCalls {
  let heard: Waking | null = null;
  let listening: Promise<() => Promise<void>> | null = null;
  let isClosed = false;
  let hasFailed = false;
  const listen = async (deliveries: Waking): Promise<() => Promise<void>> => {
    try {
      const end = await deliveries.listen(onWake);
      heard = deliveries;
      hasFailed = false;
      return end;
    } catch (error) {
      // The pump still looks every few seconds.
      if (!hasFailed) log(`deliveries: the service hears no calls of others: ${(error as Error).message}`);
      hasFailed = true;
      listening = null;
      return () => Promise.resolve();
    }
  };
  return {
    keepListening(deliveries) {
      if (!isClosed) listening ??= listen(deliveries);
    },
    wake() {
      // Then the store calls `onWake` too.
      if (heard === null) onWake();
      else heard.wake();
    },
    async close() {
      isClosed = true;
      heard = null;
      await (
        await listening
      )?.();
    },
  };
}
