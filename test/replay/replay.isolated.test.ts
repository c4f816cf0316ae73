/**
 * Workflow code of today against histories of yesterday: a change that would do other things than a running
 * run did fails here. Histories are added when the workflow learns something new, and never removed:
 * `VOIDBOX_RECORD_HISTORIES=DIR npx vitest run workers/run.server.test.ts workers/failed-stages.server.test.ts workers/approvals.server.test.ts workers/control-flow.server.test.ts workers/items.server.test.ts workers/items-parts.server.test.ts workers/items-nested.server.test.ts workers/items-loops.server.test.ts workers/items-approvals.server.test.ts workers/run-history.server.test.ts workers/boots.server.test.ts workers/loops.server.test.ts workers/parts.server.test.ts workers/retried-runs.server.test.ts workers/placement.server.test.ts
 * workers/skills/session*.server.test.ts`.
 *
 * Isolated, because a process has one runtime of the Temporal SDK.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bundleWorkflows } from '../../workers/bundle.ts';

const folder = fileURLToPath(new URL('histories', import.meta.url));
const files = readdirSync(folder).filter((name) => name.endsWith('.json'));
const workflowIdOf = (file: string): string => file.replace(/\.json$/, '');
/** One worker for all, which loads the bundle once. It replays a history when its result is asked for, in the order of the files. */
let replays: ReturnType<typeof Worker.runReplayHistories>;

beforeAll(async () => {
  Runtime.install({
    logger: new DefaultLogger('ERROR', () => undefined),
    telemetryOptions: { logging: { filter: 'ERROR', forward: {} } },
  });
  const code = await bundleWorkflows(fileURLToPath(new URL('../../workflows/index.ts', import.meta.url)));
  replays = Worker.runReplayHistories({ workflowBundle: { code } }, histories());
}, 60_000);

afterAll(async () => void (await replays?.return?.(undefined)));

function* histories(): Iterable<{ readonly workflowId: string; readonly history: unknown }> {
  for (const file of files)
    yield { workflowId: workflowIdOf(file), history: JSON.parse(readFileSync(join(folder, file), 'utf8')) };
}

test('there are histories to replay', () => {
  expect(files.length).toBeGreaterThanOrEqual(90);
});

test.each(files)('%s replays', { timeout: 30_000 }, async (file) => {
  // A filter of tests passes over others.
  for (let next = await replays.next(); next.done !== true; next = await replays.next()) {
    const { workflowId, error } = next.value;
    if (workflowId !== workflowIdOf(file)) continue;
    if (error !== undefined) throw error;
    return;
  }
  throw new Error(`${file} was not replayed`);
});
