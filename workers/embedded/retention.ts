/** How long the embedded server keeps the histories of workflows that have ended. */
import type { Connection } from '@temporalio/client';
import { textOf, type Log } from '../log.ts';

/** A dev server makes its namespace with one day. */
export const RETENTION_DAYS = 30;
const DAY_S = 86_400;

type NamespaceConfig = NonNullable<Parameters<Connection['workflowService']['updateNamespace']>[0]['config']>;
type Duration = NonNullable<NamespaceConfig['workflowExecutionRetentionTtl']>;

/** The type requires a Long, whose package we do not have; the encoder also accepts numbers. */
function durationOf(seconds: number): Duration {
  return { seconds } as unknown as Duration;
}

/** Raises the retention if it is lower; a longer retention stays. Never rejects. */
export async function ensureRetention(connection: Connection, namespace: string, log: Log): Promise<void> {
  const wantedS = RETENTION_DAYS * DAY_S;
  try {
    const { config } = await connection.workflowService.describeNamespace({ namespace });
    if (Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0) >= wantedS) return;
    await connection.workflowService.updateNamespace({
      namespace,
      config: { workflowExecutionRetentionTtl: durationOf(wantedS) },
    });
  } catch (error) {
    // The usual cause is a full disk. Runs continue, and the next start tries again.
    log('warning', `the server keeps histories for less than ${RETENTION_DAYS} days: ${textOf(error)}`);
  }
}
