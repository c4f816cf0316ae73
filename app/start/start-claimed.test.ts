/** Files of starts of one id: each run finds those of its own start. */
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { beforeEach, expect, test } from 'vitest';
import { createHmac } from 'node:crypto';
import type { RunRequest } from '../../activities/contract.ts';
import { RunExistsError, UnknownStartError } from '../../client/runs/runs.ts';
import { computeStartProof } from '../../domain/security/start-proof.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { createStartLink, type StartedWorkflow } from '../../test/rig/runs/start-link.ts';
import type { Stores } from '../../store/stores.ts';
import { type ClaimedStart, startClaimed } from './start-claimed.ts';

let stores: Stores;
let started: StartedWorkflow[];
beforeEach(() => {
  stores = openMemoryStores(new MemoryPlace());
  started = [];
});

async function start(
  name: string,
  change: Partial<ClaimedStart> = {},
  onStart: (workflow: StartedWorkflow) => void = (workflow) => void started.push(workflow),
): Promise<void> {
  const link = createStartLink({
    has: (id) => started.some(({ workflowId }) => workflowId === id),
    start: onStart,
  });
  const request: ClaimedStart = {
    runId: 'r',
    async makeRequest() {
      await stores.records.put('r', 'input', { of: name });
      return { spec: name };
    },
    summary: name,
    source: { path: null, text: name, params: {}, mode: null },
    mark: { baseDir: `/${name}` },
    variables: { TOKEN: name },
    beforeStart: undefined,
    isHere: true,
    ...change,
  };
  await startClaimed(request, link.client(), stores);
}

async function readFiles() {
  const { records, marks, hostVariables } = stores;
  return {
    input: await records.get('r', 'input'),
    source: await records.get('r', 'source'),
    mark: (await marks.get('r', 'client')) as { readonly baseDir: string; readonly startKey: string } | null,
    variables: await hostVariables.get('r'),
    claim: await records.get('r', 'start'),
  };
}

const NOTHING = { input: null, source: null, mark: null, variables: {}, claim: null };

test('one of many starts at once starts the run, and all files are its own', async () => {
  const names = Array.from({ length: 8 }, (_, at) => `folder-${at}`);
  const results = await Promise.allSettled(names.map((name) => start(name)));
  expect(started).toHaveLength(1);
  const winner = started[0]!.args[0].spec!;
  expect(await readFiles()).toMatchObject({
    input: { of: winner },
    source: { text: winner },
    mark: { baseDir: `/${winner}` },
    variables: { TOKEN: winner },
    claim: null,
  });
  const refusals = results.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []));
  expect(refusals).toHaveLength(7);
  for (const refusal of refusals) expect(refusal).toBeInstanceOf(RunExistsError);
});

test('the request has the code of its key, and not the key', async () => {
  await start('mine');
  const [request] = started[0]!.args as readonly [RunRequest];
  const { mark } = await readFiles();
  const { proof, ...rest } = request;
  const computeCode = (key: string, text: string): string => createHmac('sha256', key).update(text).digest('hex');
  expect(proof).toBe(computeStartProof(computeCode, mark!.startKey, 'r', rest));
  expect(JSON.stringify(request)).not.toContain(mark!.startKey);
  expect(await stores.hostVariables.read('r')).toEqual({ variables: { TOKEN: 'mine' }, startKey: mark!.startKey });
});

test('a start without permissions and variables has no code', async () => {
  await start('mine', { mark: null, variables: {} });
  expect(started[0]!.args).toEqual([{ spec: 'mine' }]);
});

test('a start whose id another client takes at this moment leaves nothing, and undoes its step before', async () => {
  const undone: unknown[] = [];
  const take = (): never => {
    throw new WorkflowExecutionAlreadyStartedError('taken', 'r', 'voidboxRun');
  };
  const beforeStart: ClaimedStart['beforeStart'] = () => Promise.resolve(async (error) => void undone.push(error));
  await expect(start('mine', { beforeStart }, take)).rejects.toBeInstanceOf(RunExistsError);
  expect(await readFiles()).toEqual(NOTHING);
  expect(undone).toEqual([expect.any(RunExistsError)]);
});

test('a start that may have reached the server keeps its files, and releases the id', async () => {
  const lose = (): never => {
    throw new UnknownStartError('r', new Error('lost'));
  };
  await expect(start('mine', {}, lose)).rejects.toBeInstanceOf(UnknownStartError);
  expect(await readFiles()).toMatchObject({ mark: { baseDir: '/mine' }, variables: { TOKEN: 'mine' }, claim: null });
});

test('a start writes its files at the same time, because each waits for the disk', async () => {
  const begun: string[] = [];
  const meet = async (what: string): Promise<void> => {
    begun.push(what);
    await expect.poll(() => begun).toHaveLength(3);
  };
  const { records, marks } = stores;
  stores = {
    ...stores,
    records: { ...records, put: async (...all) => (await meet(all[1]), await records.put(...all)) },
    marks: { ...marks, put: async (...all) => (await meet(all[1]), await marks.put(...all)) },
  };
  await start('mine');
  expect(begun.toSorted()).toEqual(['client', 'input', 'source']);
});

test('a start whose request cannot be made leaves nothing, also of a file that is still written', async () => {
  const { marks } = stores;
  const slow = async (...all: Parameters<typeof marks.put>): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    await marks.put(...all);
  };
  stores = { ...stores, marks: { ...marks, put: slow } };
  const makeRequest = (): Promise<never> => Promise.reject(new Error('the input is gone'));
  await expect(start('mine', { makeRequest })).rejects.toThrow('the input is gone');
  expect(await readFiles()).toEqual(NOTHING);
});

test('a start that the server refuses releases the id for the next one', async () => {
  const refuse = (): never => {
    throw new Error('refused');
  };
  await expect(start('first', {}, refuse)).rejects.toThrow('refused');
  expect(await readFiles()).toEqual(NOTHING);
  await start('second');
  expect(await readFiles()).toMatchObject({ mark: { baseDir: '/second' } });
});

test('files of the run that has the id stay, also if it is not admitted yet', async () => {
  await start('first');
  const before = await readFiles();
  await expect(start('second')).rejects.toBeInstanceOf(RunExistsError);
  expect(await readFiles()).toEqual(before);
});

test('a start that is not of this host writes nothing', async () => {
  const makeRequest: ClaimedStart['makeRequest'] = () => Promise.resolve({ spec: 'mine' });
  await start('mine', { source: null, mark: null, variables: {}, isHere: false, makeRequest });
  expect(started).toHaveLength(1);
  expect(await readFiles()).toEqual(NOTHING);
});

test('the answer for a key of a killed start does not stay for a run of another start', async () => {
  await stores.records.put('r', 'request', { hash: 'of the killed start' });
  await start('mine');
  expect(await stores.records.get('r', 'request')).toBeNull();
});
