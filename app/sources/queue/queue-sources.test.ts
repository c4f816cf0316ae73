import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { QueueSource } from '../../../domain/delivery/queue-source.ts';
import type { Trigger } from '../../../domain/delivery/trigger.ts';
import type { TriggerStore } from '../../../store/triggers.ts';
import { makeVersion, WEBHOOK } from '../../../test/conformance/deployments.ts';
import { makeNats } from '../../../test/conformance/queues.ts';
import { createMemoryAccess } from '../../../test/rig/access/memory-access.ts';
import { FakeBroker } from '../../../test/rig/queues/fake-broker.ts';
import { type QueueSources, type QueueSourcesOptions, startQueueSources } from './queue-sources.ts';

const NOW_MS = 1_795_996_400_000;

let broker: FakeBroker;
let triggers: TriggerStore;
let allowed: readonly string[];
let opens: number;

beforeEach(() => {
  broker = new FakeBroker();
  broker.addStream('ORDERS');
  triggers = createMemoryAccess().triggers;
  allowed = ['127.0.0.1:4222'];
  opens = 0;
});

function start(changes: Partial<QueueSourcesOptions> = {}): QueueSources {
  const sources = startQueueSources({
    openTriggers: () => Promise.resolve(triggers),
    open: (target) => {
      opens += 1;
      return broker.open(target);
    },
    readSecrets: () => Promise.resolve({}),
    readAllowed: () => allowed,
    wake: () => undefined,
    nowMs: Date.now,
    log: () => undefined,
    limits: { mostOpen: 1_000, roomMs: 5, retryMs: 5, mostRetryMs: 20 },
    keepLimits: { firstPauseMs: 5, mostPauseMs: 20, calmMs: 60_000 },
    sourcesLimits: { everyMs: 10, mostQueues: 256 },
    ...changes,
  });
  onTestFinished(() => sources.close());
  return sources;
}

function makeTrigger(name: string, nats: Partial<QueueSource['nats']> = {}): Trigger {
  return { ...WEBHOOK, name, source: { kind: 'queue', nats: makeNats(broker.server, { consumer: name, ...nats }) } };
}

async function deployWith(name: string, ...list: readonly Trigger[]): Promise<void> {
  const version = makeVersion(name, { triggers: list, spec: JSON.stringify([name, list]) });
  await triggers.deployments.deploy(version, { isPaused: false });
}

const statesOf = (sources: QueueSources, name: string): readonly string[] =>
  sources.listStates(name).map(({ trigger, state, code }) => `${trigger} ${code ?? state}`);

test('a service without queues opens none', async () => {
  await deployWith('hooks', WEBHOOK);
  let looks = 0;
  const sources = start({
    openTriggers: () => {
      looks += 1;
      return Promise.resolve(triggers);
    },
  });
  await expect.poll(() => looks).toBeGreaterThan(3);
  expect([opens, sources.listStates('hooks')]).toEqual([0, []]);
});

test('queues follow deployments: a new version, a deleted deployment, a changed source', async () => {
  const sources = start();
  await deployWith('a', makeTrigger('q'), WEBHOOK);
  await deployWith('b', makeTrigger('q2'));
  await expect.poll(() => [...statesOf(sources, 'a'), ...statesOf(sources, 'b')]).toEqual(['q reading', 'q2 reading']);
  broker.publish('ORDERS', 'orders.new', '1');
  const rowsOf = async (deployment: string) => await triggers.deliveries.list({ limit: 9, deployment });
  await expect.poll(async () => [(await rowsOf('a')).length, (await rowsOf('b')).length]).toEqual([1, 1]);
  await deployWith('a', makeTrigger('q'), makeTrigger('q3'));
  await expect.poll(() => statesOf(sources, 'a').toSorted()).toEqual(['q reading', 'q3 reading']);
  broker.publish('ORDERS', 'orders.new', '2');
  // The delivery has the version that is enabled, and the message that version 1 has read is no new delivery.
  await expect
    .poll(async () => (await rowsOf('a')).map(({ trigger, version }) => `${trigger} ${version}`).toSorted())
    .toEqual(['q 1', 'q 2', 'q3 2', 'q3 2']);
  await triggers.deployments.delete('b', NOW_MS);
  await expect.poll(() => sources.listStates('b')).toEqual([]);
});

test('a paused deployment that holds deliveries reads nothing, and one that drops them reads', async () => {
  const sources = start();
  await deployWith('a', makeTrigger('q'));
  await expect.poll(() => statesOf(sources, 'a')).toEqual(['q reading']);
  const rows = async () => (await triggers.deliveries.list({ limit: 9 })).length;
  await triggers.deployments.pause('a', 'drop', NOW_MS);
  broker.publish('ORDERS', 'orders.new', '1');
  await expect.poll(rows).toBe(1);
  await triggers.deployments.pause('a', 'hold', NOW_MS);
  // The pull in progress may get one more message.
  await expect
    .poll(() => {
      broker.publish('ORDERS', 'orders.new', 'x');
      return statesOf(sources, 'a');
    })
    .toEqual(['q waiting']);
  await triggers.deployments.resume('a', NOW_MS);
  await expect.poll(() => broker.countUnsettled('ORDERS', 'q')).toBe(0);
});

test('a server that the operator does not allow is not connected, and one that is not allowed any more is left', async () => {
  allowed = ['127.0.0.1:4223'];
  const sources = start();
  await deployWith('a', makeTrigger('q'));
  await expect
    .poll(() => sources.listStates('a'))
    .toMatchObject([
      {
        state: 'faulty',
        code: 'queue/not-allowed',
        message: 'the operator of the service does not allow the server 127.0.0.1:4222',
      },
    ]);
  expect(opens).toBe(0);
  allowed = ['127.0.0.1:4222'];
  await expect.poll(() => statesOf(sources, 'a')).toEqual(['q reading']);
  allowed = [];
  broker.publish('ORDERS', 'orders.new', '1');
  await expect
    .poll(() => {
      broker.publish('ORDERS', 'orders.new', 'x');
      return statesOf(sources, 'a');
    })
    .toEqual(['q queue/not-allowed']);
});

test('a secret that does not exist is named, and is read again', async () => {
  let secrets: Readonly<Record<string, string>> = {};
  broker.token = 'a-token-of-a-user';
  const sources = start({ readSecrets: () => Promise.resolve(secrets) });
  await deployWith('a', makeTrigger('q', { login: { kind: 'token', token: 'NATS_TOKEN' } }));
  await expect
    .poll(() => sources.listStates('a'))
    .toMatchObject([{ code: 'queue/no-secret', message: 'the deployment a has no secret NATS_TOKEN' }]);
  secrets = { NATS_TOKEN: 'a-token-of-a-user' };
  await expect.poll(() => statesOf(sources, 'a')).toEqual(['q reading']);
});

test('a service reads a limited number of queues, and names the others', async () => {
  const sources = start({ sourcesLimits: { everyMs: 10, mostQueues: 2 } });
  await deployWith('a', makeTrigger('q1'), makeTrigger('q2'));
  await deployWith('b', makeTrigger('q3'));
  await expect.poll(() => statesOf(sources, 'a')).toEqual(['q1 reading', 'q2 reading']);
  await expect.poll(() => statesOf(sources, 'b')).toEqual(['q3 queue/too-many']);
  await triggers.deployments.delete('a', NOW_MS);
  await expect.poll(() => statesOf(sources, 'b')).toEqual(['q3 reading']);
});
