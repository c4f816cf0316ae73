import { expect, test } from 'vitest';
import type { ApiListener, ListenState } from '../../../client/embedded/control.ts';
import { describeStay, renderStack, renderStoppedListeners } from './stack.ts';

const STACK = {
  address: '127.0.0.1:1000',
  namespace: 'default',
  uiUrl: 'http://127.0.0.1:1',
  supervisorPid: 7,
  serverPid: 8,
  workerPid: 9,
  build: '1-a',
  hostId: 'h',
  startedAtMs: 0,
};
const OPEN: ApiListener = { url: 'https://127.0.0.1:1', host: '127.0.0.1', port: 1, tls: true, problem: null };
const SHUT: ApiListener = { ...OPEN, url: 'https://[::1]:2', problem: 'another program uses the port' };
const NOWHERE: ListenState = { phase: 'ready', problem: null, publicUrl: null, listeners: [] };
const BOTH: ListenState = { ...NOWHERE, publicUrl: 'https://api.example', listeners: [OPEN, SHUT] };

function renderTcp(listen: ListenState | null): readonly string[] {
  const lines = renderStack(STACK, {
    nowMs: 0,
    stateDir: '/s',
    allowedMounts: [],
    allowedSources: { watch: ['/srv/in'], outbox: [], queue: ['nats.example:4222'] },
    apiSocket: '/s/api.sock',
    listen,
  });
  return lines.slice(
    3,
    lines.findIndex((line) => line.startsWith('processes')),
  );
}

test('each address of the API has a line, with the reason if it does not listen', () => {
  expect(renderTcp(null)).toEqual([]);
  expect(renderTcp(NOWHERE)).toEqual([]);
  expect(renderTcp(BOTH)).toEqual([
    'API on TCP  https://127.0.0.1:1',
    '            https://[::1]:2 does not listen: another program uses the port',
    '            clients know it as https://api.example',
  ]);
  expect(renderTcp({ ...NOWHERE, problem: 'listen.json\ncannot be used' })).toEqual([
    expect.stringMatching(/^API on TCP {2}none: listen\.json.+cannot be used$/),
  ]);
});

test('a stack that listens says that it stays up', () => {
  expect(describeStay(BOTH)).toContain('stays up, because the API listens on TCP');
  for (const listen of [null, NOWHERE]) expect(describeStay(listen)).toContain('stops automatically after 10 minutes');
});

test('a stack that stops says where it listens after its next start', () => {
  expect(renderStoppedListeners(BOTH)).toEqual([
    'The API no longer listens on https://127.0.0.1:1. It listens again when the stack starts, unless you end that: voidbox up --no-listen',
  ]);
  for (const listen of [null, NOWHERE, { ...BOTH, listeners: [SHUT] }])
    expect(renderStoppedListeners(listen)).toEqual([]);
});
