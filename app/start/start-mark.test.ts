/** The mark that proves who started a run. */
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { compileText } from '../../domain/language/load.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { createStartLink } from '../../test/rig/runs/start-link.ts';
import type { Machine } from '../machine.ts';
import { startRun, type StartRequest } from './start-run.ts';

const dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-start-mark-')));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** 32 random bytes. */
const START_KEY: unknown = expect.stringMatching(/^[\w-]{43}$/);
const ASKS = '{ name: ok, approval: { message: "Go?", self_approval: false } }';

/** @returns the mark that a start of the owner leaves, or undefined after a start that failed */
async function start(step: string, onStart: () => void = () => undefined): Promise<unknown> {
  const stores = openMemoryStores(new MemoryPlace());
  const context = {
    env: readEnvironment({ VOIDBOX_STATE_DIR: join(dir, 'state'), VOIDBOX_CACHE_DIR: join(dir, 'cache') }),
    cwd: dir,
    stores: () => Promise.resolve(stores),
    stackLink: () => Promise.resolve(createStartLink({ has: () => false, start: onStart })),
  } as unknown as Machine;
  const text = `kind: workflow\nname: shop\nsandbox: { mode: mock, isolation: none }\nworkflow: { steps: [${step}] }\n`;
  const { plan } = compileText(text, 'x.yaml', { baseDir: dir });
  const request: StartRequest = {
    plan: plan!,
    written: plan!,
    mock: null,
    mockAgents: null,
    source: null,
    from: null,
    runId: 'shop-1',
    hostVariables: {},
    baseDir: dir,
    places: new Map(),
    images: [],
    allowMounts: [],
    allowGit: [],
    input: null,
    mayAsk: false,
  };
  const isStarted = await startRun(request, context, () => undefined).then(
    () => true,
    () => false,
  );
  const mark = await stores.marks.get('shop-1', 'client');
  return isStarted ? mark : (mark ?? undefined);
}

test('a run that asks for a proven answer has the mark of its starter, and another run has no mark', async () => {
  expect(await start(ASKS)).toEqual({ baseDir: dir, allow: [], allowGit: [], startKey: START_KEY });
  expect(await start(ASKS.replace(', self_approval: false', ''))).toBeNull();
});

test('a start that fails leaves no mark, which would prove the owner for a run of another client', async () => {
  const fail = (): never => {
    throw new Error('the server refuses it');
  };
  expect(await start(ASKS, fail)).toBeUndefined();
});
