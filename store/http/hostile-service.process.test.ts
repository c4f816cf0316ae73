/** A service that does not keep to the API: the command line must end with an error that names the service. */
import { createHash } from 'node:crypto';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { createRemoteControl } from '../../app/control/remote-control.ts';
import { repairRemotely } from '../../app/control/repair-remotely.ts';
import type { Machine } from '../../app/machine.ts';
import type { ServiceSettings } from '../../domain/access/service-settings.ts';
import { readStreamedEvents } from '../../http/text-lines.ts';
import { connectService } from '../../http/service-client.ts';
import { createHttpArtifactStore } from './artifact-store.ts';
import { openHttpStores } from './stores.ts';

let server: Server | null = null;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

async function serve(listener: RequestListener): Promise<ServiceSettings> {
  server = createServer(listener);
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    name: `http://127.0.0.1:${port}`,
    place: { kind: 'tcp', isTls: false, host: '127.0.0.1', port },
    token: null,
    ca: null,
  };
}

const answerWith = (value: unknown): RequestListener => {
  return (_request, response) => void response.end(JSON.stringify(value));
};

const FOREIGN = { name: 'ServiceError', code: 'cli/no-service' };

test.each([
  ['null', null],
  ['a number as runs', { runs: 7, next: null }],
  ['a run without a label', { runs: [{ runId: 'r', state: 'running' }], next: null }],
  ['a cursor that is no text', { runs: [], next: {} }],
  ['ids that are no texts', { ids: [{}] }],
  ['a state that is no text', { state: {}, wasRunning: true }],
])('an answer with %s is not one of Voidbox', async (_what, value) => {
  const settings = await serve(answerWith(value));
  const { index } = openHttpStores(settings);
  const control = createRemoteControl(settings, {} as Machine);
  await expect(index.list({ limit: 5 })).rejects.toMatchObject(FOREIGN);
  await expect(index.has('r')).rejects.toMatchObject(FOREIGN);
  await expect(
    control.cancel({ found: 'r', before: null, keepsFinally: true, onProgress: () => undefined }),
  ).rejects.toMatchObject(FOREIGN);
});

test.each([
  ['a plan of another form', 'plan', { value: { name: 7 } }],
  ['an admission without its plan', 'admission', { value: {} }],
  ['a source that is a text', 'source', { value: 'kind: workflow' }],
])('%s is an answer of no Voidbox', async (_what, record, value) => {
  const { records } = openHttpStores(await serve(answerWith(value)));
  await expect(records.get('r', record)).rejects.toMatchObject(FOREIGN);
});

test('an event of another form is an answer of no Voidbox', async () => {
  const event = { seq: 1, id: 'run/started', atMs: 1, body: { type: 'stage-finished', stage: 7 } };
  const { reader } = openHttpStores(await serve(answerWith(event)));
  const read = async (): Promise<void> => {
    for await (const _ of reader.read('r', 0));
  };
  await expect(read()).rejects.toMatchObject(FOREIGN);
});

test('the state of a repaired run that is no text is an answer of no Voidbox', async () => {
  for (const answer of [null, { state: 7 }])
    await expect(repairRemotely(['r'], await serve(answerWith(answer)))).rejects.toMatchObject(FOREIGN);
});

test('an answer that does not end is an error after 10 minutes', async () => {
  let nowMs = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  onTestFinished(() => void vi.restoreAllMocks());
  const settings = await serve((_request, response) => {
    const timer = setInterval(() => {
      nowMs += 60_001;
      response.write(' ');
    }, 5);
    response.once('close', () => clearInterval(timer));
  });
  await expect(openHttpStores(settings).index.has('r')).rejects.toMatchObject({
    ...FOREIGN,
    message: `${settings.name} sends an answer that does not end in 10 minutes`,
  });
  expect(nowMs).toBeGreaterThan(600_000);
});

test('pages that never end are an error', async () => {
  const settings = await serve(answerWith({ runs: [], next: 'again' }));
  await expect(openHttpStores(settings).index.list({ limit: 5 })).rejects.toMatchObject(FOREIGN);
});

test('an artifact with more bytes than the run says ends at its size', async () => {
  const sha256 = createHash('sha256').update('abc').digest('hex');
  const settings = await serve((_request, response) => {
    response.writeHead(206, { 'content-range': 'bytes 0-2/3' });
    const write = (): void => {
      while (response.write('x'.repeat(1_000)));
      response.once('drain', write);
    };
    write();
  });
  const artifacts = createHttpArtifactStore(connectService(settings), new Map([[sha256, 'r']]));
  const read = async (): Promise<void> => {
    for await (const _ of artifacts.open({ sha256, sizeBytes: 3, mediaType: 'text/plain' }));
  };
  await expect(read()).rejects.toMatchObject({ code: 'store/damaged' });
});

test('an event that never ends is an error', async () => {
  const line = Buffer.from(`data: ${'a'.repeat(1_000_000)}\n`);
  async function* send(): AsyncGenerator<Uint8Array> {
    for (let sent = 0; sent < 100; sent += 1) yield line;
    throw new Error('everything was read');
  }
  const read = async (): Promise<void> => {
    for await (const _ of readStreamedEvents(send()));
  };
  await expect(read()).rejects.toThrow('an event of the service is too long');
});
