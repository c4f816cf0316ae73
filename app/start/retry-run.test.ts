/** Retries up to the start of the workflow, which a client of Temporal without a server records. */
import { existsSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { AdmissionRecord } from '../../activities/admission/admission-record.ts';
import type { ClientMark } from '../../client/runs/client-record.ts';
import { compileText } from '../../domain/language/load.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { openStores } from '../../store/open-stores.ts';
import { openUploads } from '../../store/open-uploads.ts';
import type { Stores } from '../../store/stores.ts';
import { leaveFinishedRuns } from '../../test/cli/finished-runs.ts';
import { RECORD_DEFAULTS } from '../../test/rig/runs/admissions.ts';
import { createTokenCaller } from '../../test/rig/access/token-caller.ts';
import { createStartLink, type StartedWorkflow } from '../../test/rig/runs/start-link.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import type { Caller } from '../access/authenticate.ts';
import type { Machine } from '../machine.ts';
import { type RetryRequest, retryRun, showRetry } from './retry-run.ts';

const SPEC = `kind: workflow
name: sales
sandbox: { mode: mock, isolation: none }
workflow:
  steps:
    - { name: load, run: ls }
    - { name: check, depends_on: [load], run: ls }
    - { name: report, depends_on: [check], run: ls }
`;
const OWNER: Caller = { kind: 'owner' };

let dir: string;
let stores: Stores;
let started: StartedWorkflow[];

beforeEach(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-retry-run-')));
  started = [];
  await leaveFinishedRuns(join(dir, 'state'));
  stores = await openStores({ stateDir: join(dir, 'state') });
  const { plan } = compileText(SPEC, 'spec.yaml', { baseDir: dir });
  if (plan === null) throw new Error('the spec of the test has a mistake');
  await stores.records.put('sales-bad', 'admission', { ...RECORD_DEFAULTS, plan: toWire(plan) });
});
afterEach(async () => {
  await stores.close();
  rmSync(dir, { recursive: true, force: true });
});

function openMachine(): Machine {
  const link = createStartLink({ has: () => false, start: (workflow) => void started.push(workflow) });
  const env = readEnvironment({
    VOIDBOX_STATE_DIR: join(dir, 'state'),
    VOIDBOX_CACHE_DIR: join(dir, 'cache'),
    HOME: dir,
  });
  return createTestMachine(stores, { env, stackLink: () => Promise.resolve(link) });
}

function requestOf(change: Partial<RetryRequest> = {}): RetryRequest {
  return {
    earlier: 'sales-bad',
    from: null,
    params: null,
    input: null,
    runId: null,
    variables: {},
    continue: null,
    limits: {},
    ...change,
  };
}

async function retry(change: Partial<RetryRequest> = {}, caller = OWNER) {
  const tools = {
    uploads: openUploads({ stateDir: join(dir, 'state') }),
    onProgress: () => undefined,
    isAwaited: true,
  };
  return await retryRun(requestOf(change), caller, tools, openMachine());
}

function callerOf(runs: readonly string[] = []): Caller {
  return createTokenCaller({ runs });
}

test('a preview names what is taken over and what runs again, and starts nothing', async () => {
  const preview = await showRetry(requestOf(), OWNER, openMachine());
  expect(preview.origin).toEqual({ runId: 'sales-bad', kind: 'retry', from: null });
  expect(preview.again.map(({ stage }) => stage)).toContain('check');
  expect(preview.given).not.toContain('check');
  expect(started).toEqual([]);
});

test('a retry starts the run that the preview shows', async () => {
  const { given, again } = await showRetry(requestOf(), OWNER, openMachine());
  const result = await retry({ runId: 'again' });
  expect(result).toMatchObject({ runId: 'again', given, again, diagnostics: [] });
  expect(started).toMatchObject([{ workflowId: 'again', args: [{ origin: { runId: 'sales-bad', kind: 'retry' } }] }]);
});

test('a generated id is not the one of the earlier run', async () => {
  const { runId } = await retry();
  expect(runId).not.toBe('sales-bad');
  expect(started[0]!.workflowId).toBe(runId);
});

test('a stage that does not exist is refused, and nothing is started', async () => {
  await expect(retry({ from: 'nothing' })).rejects.toThrow('no stage `nothing`');
  expect(started).toEqual([]);
});

test('a retry by a token has the mark of the token, and no folder of the owner', async () => {
  await retry({ runId: 'again' }, callerOf());
  const mark = (await stores.marks.get('again', 'client')) as ClientMark;
  expect(mark).toMatchObject({ starter: { kind: 'token', name: 'ci' }, allowGit: [] });
  expect(readdirSync(mark.baseDir)).toEqual([]);
});

test('a token with patterns needs an id that matches one of them', async () => {
  await expect(retry({ runId: 'again' }, callerOf(['sales-*']))).rejects.toMatchObject({ code: 'api/not-allowed' });
  expect(await retry({ runId: 'sales-2' }, callerOf(['sales-*']))).toMatchObject({ runId: 'sales-2' });
});

test('an id that a run has is refused, and the folder for uploads does not remain', async () => {
  await expect(retry({ runId: 'sales-good' }, callerOf())).rejects.toThrow('already exists');
  const folder = join(dir, 'state', 'runs');
  const left = readdirSync(folder).filter((name) => existsSync(join(folder, name, 'uploads')));
  expect(left).toEqual([]);
});

test('a preview shows whether another token started the run, or the run that it repeats', async () => {
  const shown = async (caller: Caller): Promise<boolean> =>
    (await showRetry(requestOf(), caller, openMachine())).isOfOtherToken;
  const markOf = (name: string) => ({ baseDir: dir, starter: { kind: 'token', name } });
  const { plan, ...rest } = (await stores.records.get('sales-bad', 'admission')) as AdmissionRecord;
  expect([await shown(OWNER), await shown(callerOf())]).toEqual([false, false]);
  await stores.marks.put('sales-bad', 'client', markOf('ci'));
  expect([await shown(OWNER), await shown(callerOf())]).toEqual([true, false]);

  const origin = { runId: 'first', kind: 'retry', from: null } as const;
  await stores.records.put('sales-bad', 'admission', { ...rest, plan, origin });
  // The earlier run was pruned.
  expect(await shown(callerOf())).toBe(true);
  await stores.records.put('first', 'admission', { ...rest, plan });
  await stores.marks.put('first', 'client', markOf('other'));
  expect(await shown(callerOf())).toBe(true);
  await stores.marks.put('first', 'client', markOf('ci'));
  expect(await shown(callerOf())).toBe(false);
});
