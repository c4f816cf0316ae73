/** A client of the run's Temporal server. It loads quickly, because it imports no worker code. */
import { Client, Connection, makeGrpcRetryInterceptor } from '@temporalio/client';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildConnectionOptions, type TemporalAddress } from './temporal-address.ts';
import { callRetry } from './call-retry.ts';

export interface RunsConnection {
  readonly client: Client;
  readonly connection: Connection;
  close(): Promise<void>;
}

/** @throws the SDK's error if no server answers within `timeoutMs` */
export async function connectRuns(target: TemporalAddress, timeoutMs = 10_000): Promise<RunsConnection> {
  const interceptors = [makeGrpcRetryInterceptor(callRetry())];
  const connection = await Connection.connect({
    ...buildConnectionOptions(target),
    connectTimeout: timeoutMs,
    interceptors,
  });
  return {
    connection,
    client: new Client({ connection, namespace: target.namespace }),
    close: () => connection.close(),
  };
}

const ATTEMPT_MS = 2_000;
const PAUSE_MS = 100;

/**
 * Like `connectRuns`, for a server that may still be starting: tries until `limitMs` is over.
 * @throws the reason of `stop` within one attempt, if it aborts
 */
export async function connectWhenUp(
  target: TemporalAddress,
  limitMs: number,
  stop?: AbortSignal,
): Promise<RunsConnection> {
  const until = Date.now() + limitMs;
  for (;;) {
    stop?.throwIfAborted();
    try {
      return await connectRuns(target, ATTEMPT_MS);
    } catch (error) {
      if (Date.now() > until) throw error;
      await sleep(PAUSE_MS);
    }
  }
}
