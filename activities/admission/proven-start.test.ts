import { createHash, createHmac } from 'node:crypto';
import { beforeEach, expect, test } from 'vitest';
import { readStartingTokens } from '../../domain/run/client-mark.ts';
import { computeStartProof } from '../../domain/security/start-proof.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import type { Stores } from '../../store/stores.ts';
import type { AdmitRequest } from '../contract.ts';
import { findProvenKey, restrictToStart } from './proven-start.ts';
import { createAnyStarters, createMarkedStarters } from './starters.ts';

let stores: Stores;
beforeEach(() => {
  stores = openMemoryStores(new MemoryPlace());
});

const MARK = { baseDir: '/specs', startKey: 'key of the mark' };
const REQUEST = { spec: 'kind: workflow', params: { a: '1' }, input: { kind: 'inline', text: '{}' } } as const;

function prove(key: string, runId = 'r', request: object = REQUEST): string {
  return computeStartProof((by, text) => createHmac('sha256', by).update(text).digest('hex'), key, runId, request);
}

async function findKey(change: object): Promise<string | null> {
  const admitted = { runId: 'r', originalExecutionRunId: 'e', behaviour: 1, recordsBoots: true, startedAtMs: 5 };
  return await findProvenKey(stores, { ...REQUEST, ...admitted, ...change } as unknown as AdmitRequest);
}

const hash = (text: string): string => createHash('sha256').update(text).digest('hex');

test('a request proves the key of the mark, or of the variables of a start without a mark', async () => {
  expect(await findKey({ proof: prove('key of the mark') })).toBeNull();
  await stores.marks.put('r', 'client', MARK);
  expect(await findKey({ proof: prove('key of the mark') })).toBe(hash('key of the mark'));
  await stores.hostVariables.put('r', { TOKEN: 'x' }, 'key of the variables');
  expect(await findKey({ proof: prove('key of the variables') })).toBe(hash('key of the variables'));
});

test.each([
  ['no proof', {}],
  ['another type', { proof: 7 }],
  ['a text of another length', { proof: 'x' }],
  ['a code of another key', { proof: prove('guessed') }],
  ['the hash of the key', { proof: hash('key of the mark') }],
  ['a copied code with another spec', { proof: prove('key of the mark'), spec: 'kind: agent' }],
  ['a copied code with a plan besides', { proof: prove('key of the mark'), plan: {} }],
  ['a copied code with other parameters', { proof: prove('key of the mark'), params: { a: '2' } }],
  ['a copied code without the input', { proof: prove('key of the mark'), input: undefined }],
  [
    'a copied code with an origin',
    { proof: prove('key of the mark'), origin: { runId: 'o', kind: 'fork', from: null } },
  ],
  ['a code of another run', { proof: prove('key of the mark', 'other') }],
])('a request proves nothing by %s', async (_, change) => {
  await stores.marks.put('r', 'client', MARK);
  expect(await findKey(change)).toBeNull();
});

test('a run that another client started under the id has neither the permissions nor the variables of the start', async () => {
  await stores.marks.put('r', 'client', MARK);
  await stores.hostVariables.put('r', { TOKEN: 'x' }, MARK.startKey);
  const deps = { ...stores, starters: createMarkedStarters(stores.marks) };
  const own = restrictToStart(deps, () => hash(MARK.startKey));
  expect(await own.starters.starterOf('r')).toMatchObject({ kind: 'owner', baseDir: '/specs' });
  expect(await own.hostVariables.get('r')).toEqual({ TOKEN: 'x' });
  for (const key of [null, hash('another')]) {
    const other = restrictToStart(deps, () => Promise.resolve(key));
    expect(await other.starters.starterOf('r')).toEqual({ kind: 'unknown' });
    expect(readStartingTokens(await other.marks.get('r', 'client'))).toBeNull();
    expect(await other.hostVariables.get('r')).toEqual({});
  }
});

test('a run of an earlier build has its mark and its variables, which have no key', async () => {
  await stores.marks.put('r', 'client', { baseDir: '/specs' });
  await stores.marks.put('r', 'judged', { is: 'another mark' });
  await stores.hostVariables.put('r', { TOKEN: 'x' });
  const unread = (): never => {
    throw new Error('no key has to be proven');
  };
  const run = restrictToStart({ ...stores, starters: createMarkedStarters(stores.marks) }, unread);
  expect(await run.starters.starterOf('r')).toMatchObject({ kind: 'owner' });
  expect(await run.marks.get('r', 'judged')).toEqual({ is: 'another mark' });
  expect(await run.hostVariables.get('r')).toEqual({ TOKEN: 'x' });
});

test('a run under the id of a token start has no rights of an unmarked run, on a worker of your own server either', async () => {
  await stores.marks.put('r', 'client', { ...MARK, starter: { kind: 'token', name: 'ci' } });
  await stores.hostVariables.put('r', { TOKEN: 'x' }, MARK.startKey);
  const deps = { ...stores, starters: createAnyStarters(stores.marks) };
  const own = restrictToStart(deps, () => hash(MARK.startKey));
  expect(await own.starters.starterOf('r')).toMatchObject({ kind: 'token' });
  const other = restrictToStart(deps, () => null);
  expect(await other.starters.starterOf('r')).toEqual({ kind: 'unknown' });
  expect(await other.hostVariables.get('r')).toEqual({});
  expect(await other.starters.starterOf('of a Temporal client')).toEqual({ kind: 'any' });
});
