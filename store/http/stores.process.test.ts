/** The stores over the HTTP API, which a file store is behind. Writers use the file store. */
import type * as Fs from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { ServiceSettings } from '../../domain/access/service-settings.ts';
import {
  bytesOf,
  chunksOf,
  collect,
  describeArtifactStore,
  describeEventLog,
  finishedEvent,
  noticeEvent,
  outputEvent,
} from '../../test/conformance/store.ts';
import type { OpenedRuns } from '../../test/conformance/store/opened-runs.ts';
import { describeRunIndex } from '../../test/conformance/store/run-index.ts';
import { startTestApi, type TestApi } from '../../test/rig/servers/test-api.ts';
import { openStores } from '../open-stores.ts';
import type { Stores } from '../stores.ts';

const appends = vi.hoisted(() => ({ writes: 0 }));
vi.mock('node:fs', async (importOriginal) => {
  const fs = await importOriginal<typeof Fs>();
  return {
    ...fs,
    writeSync(fd: number, ...rest: [NodeJS.ArrayBufferView]) {
      if (fs.readlinkSync(`/proc/self/fd/${fd}`).endsWith('/events.jsonl')) appends.writes++;
      return fs.writeSync(fd, ...rest);
    },
  };
});

interface Place {
  readonly files: Stores;
  readonly api: TestApi;
}

const places = new Map<string, Place>();
const clients: Stores[] = [];

async function place(): Promise<{ readonly location: string; dispose(): Promise<void> }> {
  const location = await mkdtemp(join(tmpdir(), 'voidbox-http-stores-'));
  const files = await openStores({ stateDir: location });
  const api = await startTestApi({ stateDir: location, stores: files });
  places.set(location, { files, api });
  return {
    location,
    async dispose() {
      await Promise.all(clients.splice(0).map((client) => client.close()));
      await api.close();
      await files.close();
      await rm(location, { recursive: true, force: true });
    },
  };
}

function settingsOf({ api }: Place): ServiceSettings {
  return { name: `unix:${api.socket}`, place: { kind: 'unix', path: api.socket }, token: null, ca: null };
}

async function connect(location: string): Promise<Stores> {
  const stores = await openStores({ stateDir: '/none', service: settingsOf(places.get(location)!) });
  clients.push(stores);
  return stores;
}

async function open(location: string): Promise<OpenedRuns> {
  // A writer of its own, as another process has one.
  const { events, close } = await openStores({ stateDir: location });
  const { reader, index } = await connect(location);
  return { ...events, ...reader, index, close };
}

const subject = { name: 'http', place, open };

describeEventLog({ ...subject, roundTrips: () => appends.writes, unnamedIds: ['..'], factoryModule: null });
describeRunIndex(subject);
describeArtifactStore({
  ...subject,
  async open(location) {
    const { files } = places.get(location)!;
    const { artifacts, reader } = await connect(location);
    return {
      ...files.artifacts,
      async put(bytes, mediaType) {
        const ref = await files.artifacts.put(bytes, mediaType);
        const body = { type: 'stage-published', stage: 's', execKey: 's/0/1', output: ref } as const;
        await files.events.append('r', [{ id: `of/${ref.sha256}`, atMs: 1, body }]);
        await collect(reader.read('r', 0));
        return ref;
      },
      async *open(ref, offset) {
        await collect(reader.read('r', 0));
        yield* artifacts.open(ref, offset);
      },
    };
  },
});

describe('http: a service that is away or damaged', () => {
  let dispose: (() => Promise<void>) | null = null;
  afterEach(async () => {
    await dispose?.();
    dispose = null;
  });

  async function fresh(): Promise<Place & { readonly client: Stores; readonly location: string }> {
    const made = await place();
    ({ dispose } = made);
    return { ...places.get(made.location)!, client: await connect(made.location), location: made.location };
  }

  test('a follower has each event once, however often its connection is cut', async () => {
    const { files, api, client } = await fresh();
    await files.events.append('r', [noticeEvent('first')]);
    const ids: string[] = [];
    for await (const { id, seq } of client.reader.follow('r', 0, AbortSignal.timeout(20_000))) {
      ids.push(id);
      if (seq < 6) {
        api.cut();
        await files.events.append('r', [noticeEvent(`after ${seq}`)]);
      } else if (seq === 6) await files.events.append('r', [finishedEvent()]);
    }
    expect(ids).toEqual(['first', 'after 1', 'after 2', 'after 3', 'after 4', 'after 5', 'run/finished']);
    expect(api.accepted()).toBeGreaterThan(5);
  });

  test('a follower waits for a run that does not exist yet', async () => {
    const { files, client } = await fresh();
    const following = collect(client.reader.follow('later', 0, AbortSignal.timeout(20_000)));
    await files.events.append('later', [noticeEvent('a'), finishedEvent()]);
    expect((await following).map(({ id }) => id)).toEqual(['a', 'run/finished']);
  });

  test('a read continues after its connection is cut', async () => {
    const { files, api, client } = await fresh();
    const data = 'x'.repeat(64 * 1024);
    for (let at = 0; at < 64; at += 1) await files.events.append('r', [outputEvent('a/0/1', at * data.length, data)]);
    const seqs: number[] = [];
    for await (const { seq } of client.reader.read('r', 0)) {
      seqs.push(seq);
      if (seq === 3) api.cut();
    }
    expect(seqs).toEqual(Array.from({ length: 64 }, (_, at) => at + 1));
    expect(api.accepted()).toBeGreaterThan(1);
  });

  test('damage of the events is the error that readers of this machine get', async () => {
    const { files, client, location } = await fresh();
    for (const id of ['a', 'b', 'c']) await files.events.append('r', [noticeEvent(id)]);
    const path = join(location, 'runs', 'r', 'events.jsonl');
    const lines = (await readFile(path, 'utf8')).split('\n');
    await writeFile(path, [lines[0], '{"dam', lines[2], ''].join('\n'));
    const read: string[] = [];
    const reading = (async () => {
      for await (const { id } of client.reader.read('r', 0)) read.push(id);
    })();
    await expect(reading).rejects.toMatchObject({ name: 'CodedError', code: 'store/damaged' });
    expect(read).toEqual(['a']);
    await expect(collect(client.reader.follow('r', 0, AbortSignal.timeout(20_000)))).rejects.toMatchObject({
      name: 'CodedError',
      code: 'store/damaged',
    });
  });

  test('an artifact continues after its connection is cut', async () => {
    const { files, api, client } = await fresh();
    const bytes = Buffer.alloc(8_000_000, 'abcdefghijk');
    const ref = await files.artifacts.put(chunksOf(bytes, 100_000), 'text/plain');
    const body = { type: 'stage-published', stage: 's', execKey: 's/0/1', output: ref } as const;
    await files.events.append('r', [{ id: 'a', atMs: 1, body }]);
    await collect(client.reader.read('r', 0));
    let isCut = false;
    async function* read(): AsyncGenerator<Uint8Array> {
      for await (const chunk of client.artifacts.open(ref)) {
        yield chunk;
        if (!isCut) api.cut();
        isCut = true;
      }
    }
    expect((await bytesOf(read())).equals(bytes)).toBe(true);
    expect(api.accepted()).toBeGreaterThan(1);
  });

  test('records for readers are read, and no store is written', async () => {
    const { files, client } = await fresh();
    await files.events.append('r', [noticeEvent('a')]);
    await files.records.put('r', 'source', { path: null, text: 'x', params: {}, mode: null });
    expect(await client.records.get('r', 'source')).toMatchObject({ text: 'x' });
    expect(await client.records.get('r', 'admission')).toBeNull();
    expect(await client.records.get('none', 'plan')).toBeNull();
    for (const refused of [
      client.records.get('r', 'other'),
      client.records.put('r', 'plan', {}),
      client.events.append('r', [noticeEvent('b')]),
      client.artifacts.put(chunksOf(Buffer.from('x'), 1), 'text/plain'),
      client.pruner.prune({ olderThanMs: null, keepLast: null, dryRun: true, nowMs: 0 }),
    ])
      await expect(refused).rejects.toMatchObject({ code: 'cli/not-remote', fault: 'usage' });
  });

  test('a service that does not exist is named', async () => {
    const { api } = await fresh();
    const path = `${api.socket}.none`;
    const service = { name: `unix:${path}`, place: { kind: 'unix', path }, token: 'sesame', ca: null } as const;
    const client = await openStores({ stateDir: '/none', service });
    const failure = await client.index.list({ limit: 1 }).catch((error: unknown) => error as Error);
    expect(failure).toMatchObject({ code: 'cli/no-service', fault: 'environment' });
    expect((failure as Error).message).toContain(path);
    expect(JSON.stringify([failure, (failure as Error).stack])).not.toContain('sesame');
    await client.close();
  });
});
