/** With `VOIDBOX_RECORD_HISTORIES=DIR` the histories of tests' workflows become files for the replay test. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { readEnvironment } from '../../../setup/environment.ts';

/** Where to; null when nothing is recorded. */
export function recordingDir(): string | null {
  return readEnvironment().variables['VOIDBOX_RECORD_HISTORIES'] ?? null;
}

/** Records the latest run of each workflow, or the run `runId`. */
export async function recordHistoriesOf(client: Client, workflowIds: readonly string[], runId?: string): Promise<void> {
  const folder = recordingDir();
  if (folder === null) return;
  mkdirSync(folder, { recursive: true });
  for (const workflowId of workflowIds) {
    const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    // Identities, names of sticky queues and stack traces contain names of the machine that recorded them.
    const json = historyToJSON(history)
      .replaceAll(/"identity": "[^"]*"/g, '"identity": "worker"')
      .replaceAll(/"name": "\d+@[^"]*"/g, '"name": "worker"')
      .replaceAll(/"stackTrace": "(?:[^"\\]|\\.)*"/g, '"stackTrace": ""');
    writeFileSync(join(folder, `${nameOf(workflowId, json)}.json`), eventLines(json));
  }
}

/** Ids of windows contain an execution, which differs with each recording: the name of the file has the run's id instead. */
function nameOf(workflowId: string, json: string): string {
  const [kind, , ...place] = workflowId.split('/');
  if (kind !== 'items') return workflowId;
  const root = /"rootWorkflowExecution": \{\s*"workflowId": "([^"]+)"/.exec(json)?.[1];
  if (root === undefined) throw new Error(`the history of ${workflowId} names no run`);
  return `${root}.${place
    .filter((part) => part !== '')
    .join('.')
    .replaceAll(/[^A-Za-z0-9.-]+/g, '-')}`;
}

/** The history with one event a line, so that a change of one event is a change of one line. */
function eventLines(json: string): string {
  const { events, ...others } = JSON.parse(json) as { readonly events: readonly unknown[] };
  if (Object.keys(others).length > 0)
    throw new Error(`a history has more than events: ${Object.keys(others).join(', ')}`);
  return `{"events":[\n${events.map((event) => JSON.stringify(event)).join(',\n')}\n]}\n`;
}
