/** Wakes processes that look for due deliveries, by NOTIFY. A process that misses a call finds the delivery when it looks at the table. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { DeliveryStore } from '../triggers.ts';
import { type AccessTarget, connectClient, type Database } from './database.ts';

const CHANNEL = 'voidbox_deliveries';
/** NOTIFY locks all commits of the database for a moment, so several calls become one. */
const NOTIFY_EVERY_MS = 50;
/** The pause before a further connection; it doubles while the server is away. */
const [RECONNECT_MS, MOST_RECONNECT_MS] = [1_000, 16_000];
const STATEMENT_LIMIT_MS = 10_000;
/** A server that is suspended does not end a connection. */
const END_LIMIT_MS = 1_000;

/** A connection of its own, as `pg` makes it. */
export type WakeClient = Pick<pg.Client, 'query' | 'end'> & {
  on(event: 'notification', listener: (message: Pick<pg.Notification, 'payload'>) => void): unknown;
  once(event: 'end', listener: () => void): unknown;
};

export interface WakerOptions {
  readonly database: Pick<Database, 'send'>;
  /** @throws CodedError */
  readonly connect: () => Promise<WakeClient>;
  /** Another pause is for tests. */
  readonly reconnectMs?: number;
}

export function createDeliveryWaker({
  database,
  connect,
  reconnectMs = RECONNECT_MS,
}: WakerOptions): Pick<DeliveryStore, 'wake' | 'listen'> {
  const local = new Set<() => void>();
  // Listeners of this process hear its calls at once, and not once more from the server.
  const sender = randomUUID();
  let isSending = false;
  return {
    wake() {
      for (const listener of local) listener();
      if (isSending) return;
      isSending = true;
      setTimeout(() => {
        isSending = false;
        // Without a server there is nothing to decide.
        database.send('SELECT pg_notify($1, $2)', [CHANNEL, sender], true).catch(() => undefined);
      }, NOTIFY_EVERY_MS).unref();
    },
    async listen(onWake) {
      const end = await keepListening({
        listen: () => openListener(connect, (payload) => payload !== sender && onWake()),
        onWake,
        reconnectMs,
      });
      local.add(onWake);
      return async () => {
        local.delete(onWake);
        await end();
      };
    },
  };
}

export function connectWakeClient(target: AccessTarget): () => Promise<WakeClient> {
  return async () => await connectClient(target, STATEMENT_LIMIT_MS);
}

interface Listener {
  /** Settles when the connection has ended. */
  readonly ended: Promise<void>;
  end(): Promise<void>;
}

/** @throws CodedError, or an error of `pg` if the server refuses; then no connection is left */
async function openListener(
  connect: WakerOptions['connect'],
  onCall: (payload: string | undefined) => void,
): Promise<Listener> {
  const client = await connect();
  const ended = new Promise<void>((resolve) => void client.once('end', resolve));
  const end = async (): Promise<void> => {
    const limit = new AbortController();
    const late = sleep(END_LIMIT_MS, undefined, { signal: limit.signal }).catch(() => undefined);
    // A lost connection needs no end.
    await Promise.race([client.end().catch(() => undefined), late]);
    limit.abort();
  };
  client.on('notification', ({ payload }) => onCall(payload));
  try {
    await client.query(`LISTEN ${CHANNEL}`);
  } catch (error) {
    await end();
    throw error;
  }
  return { ended, end };
}

interface Listening {
  readonly listen: () => Promise<Listener>;
  /** Called after each further connection: calls may have been missed. */
  readonly onWake: () => void;
  readonly reconnectMs: number;
}

/** Connects again after each loss. @throws what the first connection throws */
async function keepListening({ listen, onWake, reconnectMs }: Listening): Promise<() => Promise<void>> {
  const stop = new AbortController();
  const stopped = new Promise<void>((resolve) => stop.signal.addEventListener('abort', () => resolve()));
  let listener = await listen();
  const listenAgain = async (): Promise<Listener | null> => {
    for (let pauseMs = reconnectMs; ; pauseMs = Math.min(2 * pauseMs, MOST_RECONNECT_MS)) {
      await sleep(pauseMs, null, { signal: stop.signal, ref: false }).catch(() => undefined);
      if (stop.signal.aborted) return null;
      // The looks of the pump find what no call reports until then.
      const next = await listen().catch(() => null);
      if (next !== null) return next;
    }
  };
  const follow = async (): Promise<void> => {
    for (;;) {
      await Promise.race([listener.ended, stopped]);
      const next = stop.signal.aborted ? null : await listenAgain();
      if (next === null) return await listener.end();
      listener = next;
      if (!stop.signal.aborted) onWake();
    }
  };
  const following = follow();
  return async () => {
    stop.abort();
    await following;
  };
}
