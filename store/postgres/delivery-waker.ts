/** Wakes processes that look for due deliveries, by NOTIFY. A process that misses a call finds the delivery when it looks at the table. */
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { DeliveryStore } from '../triggers.ts';
import { type AccessTarget, connectClient, type Database } from './database.ts';

const CHANNEL = 'voidbox_deliveries';
/** NOTIFY locks all commits of the database for a moment, so several calls become one. */
const NOTIFY_EVERY_MS = 50;
const RECONNECT_MS = 1_000;
const STATEMENT_LIMIT_MS = 10_000;

export function createDeliveryWaker(
  database: Pick<Database, 'send'>,
  target: AccessTarget,
): Pick<DeliveryStore, 'wake' | 'listen'> {
  const local = new Set<() => void>();
  let isSending = false;
  return {
    wake() {
      for (const listener of local) listener();
      if (isSending) return;
      isSending = true;
      setTimeout(() => {
        isSending = false;
        // Without a server there is nothing to decide.
        database.send(`NOTIFY ${CHANNEL}`, [], true).catch(() => undefined);
      }, NOTIFY_EVERY_MS).unref();
    },
    async listen(onWake) {
      local.add(onWake);
      const end = await listenTo(target, onWake);
      return async () => {
        local.delete(onWake);
        await end();
      };
    },
  };
}

/** Connects again after each loss. @throws CodedError if the first connection fails */
async function listenTo(target: AccessTarget, onWake: () => void): Promise<() => Promise<void>> {
  const stop = new AbortController();
  const connect = async (): Promise<pg.Client> => {
    const client = await connectClient(target, STATEMENT_LIMIT_MS);
    client.on('notification', onWake);
    client.on('end', () => void connectAgain());
    await client.query(`LISTEN ${CHANNEL}`);
    return client;
  };
  let client = await connect();
  const connectAgain = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      try {
        await sleep(RECONNECT_MS, null, { signal: stop.signal, ref: false });
        client = await connect();
        if (stop.signal.aborted) await client.end();
        // It may have missed calls.
        onWake();
        return;
      } catch {
        // The server is still away.
      }
    }
  };
  return async () => {
    stop.abort();
    await client.end().catch(() => undefined);
  };
}
