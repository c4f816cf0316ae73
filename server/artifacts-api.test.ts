/** The routes for outputs of runs, and for what a command line on another machine reads. */
import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { DataRef } from '../domain/plan/plan.ts';
import { readEnvironment } from '../setup/environment.ts';
import { openStores } from '../store/open-stores.ts';
import type { Stores } from '../store/stores.ts';
import { writeTar } from '../tar/write.ts';
import { leaveFinishedRuns } from '../test/cli/finished-runs.ts';
import { chunksOf } from '../test/conformance/store.ts';
import { stageResult } from '../test/rig/runs/stage-results.ts';
import { openAsOwner, refuseAccess } from '../test/rig/access/owner.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { type Api, createApi } from './api.ts';
import { openUploads } from '../store/open-uploads.ts';
import { API_LIMITS } from './limits.ts';

const dir = mkdtempSync(join(tmpdir(), 'voidbox-api-artifacts-'));
const env = readEnvironment({ VOIDBOX_STATE_DIR: join(dir, 'state'), VOIDBOX_CACHE_DIR: join(dir, 'cache') });
const FILE = Buffer.from('0123456789\n');
const LARGE = Buffer.alloc(700_000, 'abcdefg');
let stores: Stores;
let api: Api;
const refs: Record<'file' | 'folder' | 'large' | 'foreign', DataRef> = {} as never;

beforeAll(async () => {
  await leaveFinishedRuns(env.stateDir);
  stores = await openStores(env);
  const { artifacts, events, records } = stores;
  const put = async (bytes: AsyncIterable<Uint8Array>, type = 'application/x-tar'): Promise<DataRef> =>
    await artifacts.put(bytes, type);
  refs.file = await put(writeTar([{ kind: 'file', path: 'table', mode: 0o644, body: FILE }]));
  refs.folder = await put(writeTar([{ kind: 'dir', path: 'site', mode: 0o755 }]));
  refs.large = await put(chunksOf(LARGE, 70_000), 'text/plain');
  refs.foreign = await put(chunksOf(Buffer.from('of another run'), 100), 'text/plain');
  const stage = 'a/b "ü"';
  const outputs = { table: refs.file, site: refs.folder };
  const result = stageResult('a/0/1', { output: refs.large, outputs });
  await events.append('made', [
    { id: 'x', atMs: 1, body: { type: 'notice', level: 'info', message: JSON.stringify(refs.foreign) } },
    { id: 'y', atMs: 2, body: { type: 'stage-finished', stage, execKey: 'a/0/1', result } },
  ]);
  await events.append('other', [
    { id: 'z', atMs: 3, body: { type: 'stage-published', stage: 's', execKey: 's/0/1', output: refs.foreign } },
  ]);
  await records.put('made', 'source', { path: '/spec', text: 'x', params: {}, mode: null });
  await stores.marks.put('made', 'client', { baseDir: '/secret' });
  api = createApi({
    machine: createTestMachine(stores, { env }),
    access: refuseAccess,
    uploads: openUploads(env),
    version: '1.2.3',
    limits: API_LIMITS,
    log: () => undefined,
  });
});
afterAll(async () => {
  await stores.close();
  rmSync(dir, { recursive: true, force: true });
});

const STAGE = encodeURIComponent('a/b "ü"');

async function get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return await openAsOwner(api).request(`/api/v1/${path}`, { headers });
}

/** The paths of the files that this process has open. */
function listOpenFiles(): readonly string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      return [];
    }
  });
}

async function bytesOf(response: Response): Promise<Buffer> {
  return Buffer.from(await response.arrayBuffer());
}

describe('outputs', () => {
  test('a request without a reader of the body keeps no file open', async () => {
    const listOpen = (): readonly string[] => listOpenFiles().filter((path) => path.startsWith(dir));
    const before = listOpen();
    for (const path of [`artifacts/${STAGE}`, 'events']) {
      const answer = await openAsOwner(api).request(`/api/v1/runs/made/${path}`, { method: 'HEAD' });
      expect(answer.status).toBe(200);
      const unread = await get(`runs/made/${path}`);
      await unread.body!.cancel();
    }
    await expect.poll(listOpen, { timeout: 5_000 }).toEqual(before);
  });

  test('the list has the outputs of the run, by stage and name', async () => {
    const { artifacts } = (await (await get('runs/made/artifacts')).json()) as { artifacts: unknown[] };
    expect(artifacts).toMatchObject([
      { stage: 'a/b "ü"', name: null, kind: 'file', sizeBytes: LARGE.byteLength, partial: false },
      { name: 'table', kind: 'file', sha256: refs.file.sha256 },
      { name: 'site', kind: 'folder', mediaType: 'application/x-tar' },
    ]);
  });

  test('the own output of a stage is an attachment that no browser shows', async () => {
    const response = await get(`runs/made/artifacts/${STAGE}`);
    expect(response.status).toBe(200);
    expect((await bytesOf(response)).equals(LARGE)).toBe(true);
    const { headers } = response;
    expect(headers.get('content-type')).toBe('application/octet-stream');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('content-length')).toBe(String(LARGE.byteLength));
    expect(headers.get('content-disposition')).toBe(
      `attachment; filename="a_b____"; filename*=UTF-8''a%2Fb%20%22%C3%BC%22`,
    );
    expect(headers.get('etag')).toBe(`"${refs.large.sha256}"`);
  });

  test('an output of one file is the file, and a folder is a tar', async () => {
    expect(await bytesOf(await get(`runs/made/artifacts/${STAGE}/table`))).toEqual(FILE);
    const folder = await get(`runs/made/artifacts/${STAGE}/site`);
    expect(folder.headers.get('content-disposition')).toContain('filename="site.tar"');
    expect((await bytesOf(folder)).byteLength).toBe(refs.folder.sizeBytes);
  });

  test.each([
    ['bytes=0-3', '0123', 'bytes 0-3/11'],
    ['bytes=4-', '456789\n', 'bytes 4-10/11'],
    ['bytes=-2', '9\n', 'bytes 9-10/11'],
    ['bytes=9-99', '9\n', 'bytes 9-10/11'],
  ])('%s is a part', async (range, text, shown) => {
    const response = await get(`runs/made/artifacts/${STAGE}/table`, { range });
    expect(response.status).toBe(206);
    expect(response.headers.get('content-range')).toBe(shown);
    expect(response.headers.get('content-length')).toBe(String(text.length));
    expect(await response.text()).toBe(text);
  });

  test('a part from the middle of a large file', async () => {
    const response = await get(`runs/made/data/${refs.large.sha256}`, { range: 'bytes=300000-600000' });
    expect((await bytesOf(response)).equals(LARGE.subarray(300_000, 600_001))).toBe(true);
  });

  test('a range beyond the end is refused with the size', async () => {
    const response = await get(`runs/made/artifacts/${STAGE}/table`, { range: 'bytes=11-' });
    expect(response.status).toBe(416);
    expect(response.headers.get('content-range')).toBe('bytes */11');
    expect(await response.json()).toMatchObject({ status: 416, code: 'api/invalid-request' });
  });

  test('a client that has the bytes gets only the status', async () => {
    const path = `runs/made/artifacts/${STAGE}/table`;
    const etag = (await get(path)).headers.get('etag')!;
    const response = await get(path, { 'if-none-match': `"x", W/${etag}` });
    expect([response.status, await response.text()]).toEqual([304, '']);
    expect((await get(path, { range: 'bytes=1-', 'if-range': '"x"' })).status).toBe(200);
    expect((await get(path, { range: 'bytes=1-', 'if-range': etag })).status).toBe(206);
  });
});

describe('refused reads', () => {
  test.each([
    ['an unknown stage', 'artifacts/none'],
    ['an unknown name', `artifacts/${STAGE}/none`],
    ['a path for a stage', `artifacts/${encodeURIComponent('../../../etc/passwd')}`],
    ['a path for a name', `artifacts/${STAGE}/${encodeURIComponent('../table')}`],
    ['a path for a hash', `data/${encodeURIComponent('../../stack.json')}`],
    ['no hash', 'data/x'],
    ['a hash of no artifact', `data/${'ab'.repeat(32)}`],
  ])('%s', async (_what, path) => {
    const response = await get(`runs/made/${path}`);
    expect(await response.json()).toMatchObject({ status: 404, code: 'api/no-artifact' });
  });

  test('an artifact that another run names, also if a text of this run mentions it', async () => {
    const response = await get(`runs/made/data/${refs.foreign.sha256}`);
    expect(await response.json()).toMatchObject({ status: 404, code: 'api/no-artifact' });
    expect(await (await get(`runs/other/data/${refs.foreign.sha256}`)).text()).toBe('of another run');
  });

  test.each(['artifacts/%ff', `artifacts/${STAGE}/%ff`, 'data/%ff'])('%s is no text', async (path) => {
    expect(await (await get(`runs/made/${path}`)).json()).toMatchObject({ status: 400, code: 'api/invalid-request' });
  });

  test('damaged bytes are a problem and no artifact', async () => {
    const { artifacts } = stores;
    const ref = await artifacts.put(chunksOf(Buffer.from('to be damaged'), 100), 'text/plain');
    await stores.events.append('damaged', [
      { id: 'z', atMs: 3, body: { type: 'stage-published', stage: 's', execKey: 's/0/1', output: ref } },
    ]);
    const path = join(env.stateDir, 'artifacts', ref.sha256.slice(0, 2), ref.sha256);
    rmSync(path);
    expect(await (await get('runs/damaged/artifacts/s')).json()).toMatchObject({ code: 'store/damaged' });
    writeFileSync(path, 'it was damaged');
    expect(await (await get('runs/damaged/artifacts/s')).json()).toMatchObject({ code: 'store/damaged' });
  });
});

describe('what the store has', () => {
  test('the index has runs by their events, in pages', async () => {
    const first = (await (await get('run-index?limit=1')).json()) as { runs: unknown[]; next: string };
    expect(first.runs).toMatchObject([{ runId: expect.any(String), state: 'succeeded', problem: null }]);
    const rest = (await (await get(`run-index?cursor=${first.next}`)).json()) as { runs: unknown[]; next: null };
    expect(rest).toMatchObject({ next: null });
    expect(rest.runs.length).toBeGreaterThan(1);
    expect((await (await get('run-index?limit=201')).json()) as object).toMatchObject({ code: 'api/invalid-request' });
  });

  test('ids are found by their beginning, and whole', async () => {
    expect(await (await get('run-ids?prefix=sales-g')).json()).toEqual({ ids: ['sales-good'], next: null });
    expect(await (await get('run-ids?id=sales-good')).json()).toEqual({ ids: ['sales-good'], next: null });
    expect(await (await get('run-ids?id=sales-g')).json()).toEqual({ ids: [], next: null });
    expect(await (await get('run-ids?limit=1000')).json()).toMatchObject({ next: null });
    for (const query of ['limit=1001', 'limit=0', 'cursor=x'])
      expect(await (await get(`run-ids?${query}`)).json()).toMatchObject({ code: 'api/invalid-request' });
  });

  test('a record is read by its name, and an absent one is null', async () => {
    expect(await (await get('runs/made/records/source')).json()).toMatchObject({ value: { path: '/spec' } });
    expect(await (await get('runs/made/records/plan')).json()).toEqual({ value: null });
  });

  test.each(['client', 'input', 'x', '%2e%2e%2fclient'])('the record %s is not for readers', async (name) => {
    const response = await get(`runs/made/records/${name}`);
    expect(response.status).toBe(400);
    expect(JSON.stringify(await response.json())).not.toContain('secret');
  });

  test('events can be read without the output of stages', async () => {
    const typesOf = async (path: string): Promise<readonly string[]> =>
      (await (await get(path)).text())
        .trimEnd()
        .split('\n')
        .map((line) => (JSON.parse(line) as { body: { type: string } }).body.type);
    expect(await typesOf('runs/sales-good/events')).toContain('output');
    const without = await typesOf('runs/sales-good/events?output=false');
    expect(without).not.toContain('output');
    expect(without.at(-1)).toBe('run-finished');
    const stream = await get('runs/sales-good/events?output=false', { accept: 'text/event-stream' });
    expect(await stream.text()).not.toContain('"type":"output"');
  });
});

test.each(['{"timeoutMs":1e300}', '{"deadlineMs":0.5}', '{"timeoutMs":9007199254740993}', '{"deadlineMs":-1}'])(
  'a retry with the limit %s is refused before its start',
  async (body) => {
    const answer = await openAsOwner(api).request('/api/v1/runs/made/retry', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ code: 'api/invalid-request' });
  },
);
