/** Requests for a run that is started, and that no worker has admitted. */
import type { Client } from '@temporalio/client';
import { beforeEach, expect, test } from 'vitest';
import type { ServerLink } from '../client/temporal/server-link.ts';
import type { Stores } from '../store/stores.ts';
import { createAdmitted } from '../test/rig/runs/asked-machine.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { openAsOwner, refuseAccess } from '../test/rig/access/owner.ts';
import { openUploads } from '../store/open-uploads.ts';
import { createApi } from './api.ts';
import { API_LIMITS } from './limits.ts';

let stores: Stores;
let state: string;
let host: string | null;
let get: (path: string) => Promise<Response>;

beforeEach(() => {
  stores = openMemoryStores(new MemoryPlace());
  state = 'RUNNING';
  host = null;
  const describe = () =>
    Promise.resolve({
      status: { name: state },
      startTime: new Date(),
      closeTime: undefined,
      searchAttributes: host === null ? {} : { VoidboxHost: [host] },
      raw: { workflowExtendedInfo: { cancelRequested: false } },
    });
  const client = { workflow: { getHandle: () => ({ describe }) } } as unknown as Client;
  const link = {
    isEmbedded: true,
    client: () => client,
    runUrl: () => null,
    briefly: <T>(call: (client: Client) => Promise<T>) => call(client),
  } as Partial<ServerLink> as ServerLink;
  const machine = createTestMachine(stores, { stackLink: () => Promise.resolve(link) });
  const api = createApi({
    machine,
    uploads: openUploads(machine.env),
    access: refuseAccess,
    version: '1.2.3',
    limits: API_LIMITS,
    log: () => undefined,
  });
  get = async (path) => await openAsOwner(api).request(`/api/v1/runs/early${path}`);
});

test.each(['', '/events', '/logs', '/stages', '/result', '/artifacts'])(
  'a request for %j of the run is to be repeated until a worker admits it',
  async (path) => {
    const early = await get(path);
    expect(early.status).toBe(503);
    expect(early.headers.get('retry-after')).toBe('1');
    expect(await early.json()).toMatchObject({ code: 'api/not-admitted', fault: 'environment' });
    await stores.events.append('early', [createAdmitted()]);
    expect([200, 202]).toContain((await get(path)).status);
  },
);

test('a run that has ended without an admission, and a run of another host, are not on this host', async () => {
  state = 'FAILED';
  expect((await get('/events')).status).toBe(404);
  state = 'RUNNING';
  host = 'elsewhere';
  expect((await get('/events')).status).toBe(404);
});
