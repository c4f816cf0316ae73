/**
 * Workflow code of today against recorded histories: a change that makes other commands than an open run made fails here.
 * `test/replay/paths.ts` lists the path of each history. A change of commands raises `BEHAVIOUR` (ADR 12) and adds histories:
 * `VOIDBOX_RECORD_HISTORIES=DIR npx vitest run --project server workers test/skills/environment` writes those of the named runs.
 *
 * Isolated, because a process has one runtime of the Temporal SDK.
 */
import { fileURLToPath } from 'node:url';
import type { Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bundleWorkflows } from '../../workers/bundle.ts';
import { HISTORIES, replay, silenceWorkers } from './histories.ts';
import { PATHS } from './paths.ts';

let replays: ReturnType<typeof Worker.runReplayHistories>;

beforeAll(async () => {
  silenceWorkers();
  const code = await bundleWorkflows(fileURLToPath(new URL('../../workflows/index.ts', import.meta.url)));
  replays = replay(code, HISTORIES);
}, 300_000);

afterAll(async () => void (await replays?.return?.(undefined)));

test('each path has a history or the reason why it lacks one, and each history has one path', () => {
  const named = Object.values(PATHS).flatMap((path) => path.histories ?? []);
  expect(named.toSorted()).toEqual(HISTORIES.toSorted());
  expect(new Set(named).size).toBe(named.length);
  for (const [path, { histories, without }] of Object.entries(PATHS))
    expect(histories === undefined, path).toBe(without !== undefined);
});

test.each(HISTORIES)('%s replays', { timeout: 300_000 }, async (history) => {
  // A filter of tests passes over others.
  for (let next = await replays.next(); next.done !== true; next = await replays.next()) {
    const { workflowId, error } = next.value;
    if (workflowId !== history) continue;
    if (error !== undefined) throw error;
    return;
  }
  throw new Error(`${history} was not replayed`);
});
