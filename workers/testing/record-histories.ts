/** With `VOIDBOX_RECORD_HISTORIES=DIR` the histories of tests' sessions become files for the replay test. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { readEnvironment } from '../../setup/environment.ts';
import type { SessionRig } from './session-rig.ts';

/** Where to; null when nothing is recorded. */
export function recordingDir(): string | null {
  return readEnvironment().variables['VOIDBOX_RECORD_HISTORIES'] ?? null;
}

/** Of each its latest run, or that of `runId`. */
export async function recordHistoriesOf(rig: SessionRig, sessions: readonly string[], runId?: string): Promise<void> {
  const folder = recordingDir();
  if (folder === null) return;
  for (const session of sessions) {
    const history = await rig.runs.client.workflow.getHandle(session, runId).fetchHistory();
    // Names of the machine that recorded them stand in identities, stack traces and messages.
    const json = historyToJSON(history)
      .replaceAll(/"identity": "[^"]*"/g, '"identity": "worker"')
      .replaceAll(/"stackTrace": "(?:[^"\\]|\\.)*"/g, '"stackTrace": ""');
    writeFileSync(join(folder, `${session}.json`), `${json}\n`);
  }
}
