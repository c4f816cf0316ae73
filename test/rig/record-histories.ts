/** With `VOIDBOX_RECORD_HISTORIES=DIR` the histories of tests' workflows become files for the replay test. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { readEnvironment } from '../../setup/environment.ts';

/** Where to; null when nothing is recorded. */
export function recordingDir(): string | null {
  return readEnvironment().variables['VOIDBOX_RECORD_HISTORIES'] ?? null;
}

/** Of each its latest run, or that of `runId`. */
export async function recordHistoriesOf(client: Client, workflowIds: readonly string[], runId?: string): Promise<void> {
  const folder = recordingDir();
  if (folder === null) return;
  mkdirSync(folder, { recursive: true });
  for (const workflowId of workflowIds) {
    const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    // Names of the machine that recorded them stand in identities, names of sticky queues, and stack traces.
    const json = historyToJSON(history)
      .replaceAll(/"identity": "[^"]*"/g, '"identity": "worker"')
      .replaceAll(/"name": "\d+@[^"]*"/g, '"name": "worker"')
      .replaceAll(/"stackTrace": "(?:[^"\\]|\\.)*"/g, '"stackTrace": ""');
    writeFileSync(join(folder, `${workflowId.replaceAll('/', '-')}.json`), `${json}\n`);
  }
}
