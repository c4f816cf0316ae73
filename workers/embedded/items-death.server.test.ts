/**
 * SIGKILL ends the worker of the embedded stack while nested windows are open. The run must still have its normal
 * result.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectRuns } from '../../client/temporal/connect.ts';
import { ensureStack, readStack, stopStack } from '../../client/embedded/stack.ts';
import { awaitOutcome, startRun } from '../../client/runs/runs.ts';
import { createEmbeddedAddress } from '../../client/temporal/temporal-address.ts';
import type { RunEventBody } from '../../domain/run/event.ts';
import { readEnvironment, type Environment } from '../../setup/environment.ts';
import { resolveStackPieces } from '../../setup/resolve.ts';
import { openStores } from '../../store/open-stores.ts';

const RUN = 'nested-death';
const ITEMS = ['a', 'b'];
const INNER = [1, 2];
/** In each item a list, whose items are a nap and a text each. */
const SPEC = `kind: workflow
name: nested
sandbox: { mode: mock, isolation: none }
parts:
  p: { workflow: { steps: [{ name: inner, uses: q, for_each: ${JSON.stringify(INNER)}, max_parallel: 1 }] } }
  q:
    workflow:
      output_step: say
      steps:
        - { name: nap, run: { program: sleep, args: ["1"] } }
        - { name: say, depends_on: [nap], run: { program: echo, args: [done] } }
workflow:
  steps: [{ name: outer, uses: p, for_each: ${JSON.stringify(ITEMS)} }]
`;

let env: Environment;

beforeAll(async () => {
  const real = readEnvironment();
  env = readEnvironment({ ...real.variables, VOIDBOX_STATE_DIR: mkdtempSync(join(tmpdir(), 'voidbox-items-death-')) });
  await ensureStack(env, { pieces: await resolveStackPieces(real, { install: true }) });
}, 120_000);

afterAll(async () => {
  await stopStack(env);
  rmSync(env.stateDir, { recursive: true, force: true });
});

async function eventsOf(runId: string): Promise<readonly RunEventBody[]> {
  const { reader } = await openStores(env);
  const bodies: RunEventBody[] = [];
  for await (const { body } of reader.read(runId, 0)) bodies.push(body);
  return bodies;
}

/** Exec keys without the attempt: what is done once, whatever becomes of VMs. */
function workOf(bodies: readonly RunEventBody[], type: 'stage-started' | 'stage-finished'): readonly string[] {
  return bodies.flatMap((body) =>
    body.type === type && 'execKey' in body ? [body.execKey.replace(/\/\d+$/, '')] : [],
  );
}

const succeeded = (bodies: readonly RunEventBody[]): readonly string[] =>
  workOf(
    bodies.filter((body) => body.type === 'stage-finished' && body.result.outcome === 'succeeded'),
    'stage-finished',
  );

test(
  'it ends with the results of all items, and nothing that had ended is done again',
  { timeout: 120_000 },
  async () => {
    const { workerPid, address } = (await readStack(env))!;
    const runs = await connectRuns(createEmbeddedAddress(address));
    try {
      await startRun(runs.client, { runId: RUN, request: { spec: SPEC }, summary: 'nested' });
      const isInner = (key: string): boolean => key.startsWith('outer.inner.say/');
      let before: readonly RunEventBody[] = [];
      while (new Set(succeeded(before).filter(isInner)).size < 1) {
        await sleep(50);
        before = await eventsOf(RUN).catch(() => []);
      }
      process.kill(workerPid, 'SIGKILL');
      before = await eventsOf(RUN);
      const ended = succeeded(before);
      // Else no window within was open.
      expect(new Set(ended.filter(isInner)).size).toBeLessThan(ITEMS.length * INNER.length);
      expect(ended).not.toContain('outer/0');

      const outcome = await awaitOutcome(runs.client, RUN);
      expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
      const { artifacts } = await openStores(env);
      const chunks: Uint8Array[] = [];
      for await (const chunk of artifacts.open(outcome.output!)) chunks.push(chunk);
      const inner = INNER.map((item) => ({ item, output: 'done\n' }));
      expect(JSON.parse(Buffer.concat(chunks).toString('utf8'))).toEqual(
        ITEMS.map((item) => ({ item, output: inner })),
      );

      const after = (await eventsOf(RUN)).slice(before.length);
      expect(workOf(after, 'stage-started').filter((key) => ended.includes(key))).toEqual([]);
      const all = succeeded([...before, ...after]);
      expect(all.filter(isInner)).toHaveLength(ITEMS.length * INNER.length);
      expect(new Set(all).size).toBe(all.length);
      expect((await readStack(env))!.workerPid).not.toBe(workerPid);
    } finally {
      await runs.close();
    }
  },
);
