import { expect, test } from 'vitest';
import type { ServiceClient, ServiceRequest } from '../../http/service-client.ts';
import { ServiceError } from '../../http/service-error.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import { releaseRemotely } from './release-remotely.ts';

const VMS = ['build', 'fixes[1].work'].map((stage) => ({ runId: 'a/b', stage, vmKey: `key of ${stage}`, untilMs: 1 }));
const GONE = new ServiceError('it kept no VM', { status: 404, code: 'api/no-vm', fault: 'usage', remedy: null });
const REFUSED = new ServiceError('no', { status: 403, code: 'api/not-allowed', fault: 'usage', remedy: null });

/** A service that lists these VMs, and answers to their ends. */
function serve(vms: unknown, answer: () => unknown = () => ({})): { client: ServiceClient; ended: string[] } {
  const ended: string[] = [];
  const client = {
    name: 'service',
    readJson: () => Promise.resolve({ vms }),
    retry: <T>(attempt: () => Promise<T>) => attempt(),
    change: async ({ method, path }: ServiceRequest) => {
      ended.push(`${method} ${path.join(' ')}`);
      return answer();
    },
  };
  return { client: client as unknown as ServiceClient, ended };
}

const context = createTestMachine(openMemoryStores(new MemoryPlace()));

test('all VMs of a run end, or those of a stage, also if the run itself was pruned', async () => {
  const all = serve([...VMS, { ...VMS[0], runId: 'other' }]);
  expect(await releaseRemotely({ run: 'a/b', stage: undefined }, all.client, context)).toEqual({
    runId: 'a/b',
    released: VMS.map(({ stage, vmKey }) => ({ stage, vmKey })),
  });
  expect(all.ended).toEqual(['DELETE vms a/b build', 'DELETE vms a/b fixes[1].work']);
  const one = serve(VMS);
  await releaseRemotely({ run: 'a/b', stage: 'fixes[1].work' }, one.client, context);
  expect(one.ended).toEqual(['DELETE vms a/b fixes[1].work']);
});

test('a VM that has ended since it was listed is no error, and another refusal is one', async () => {
  const gone = serve(VMS, () => {
    throw GONE;
  });
  expect((await releaseRemotely({ run: 'a/b', stage: undefined }, gone.client, context)).released).toHaveLength(2);
  const refused = serve(VMS, () => {
    throw REFUSED;
  });
  await expect(releaseRemotely({ run: 'a/b', stage: undefined }, refused.client, context)).rejects.toThrow('no');
});

test('a stage without a VM is refused with those that have one', async () => {
  const { client, ended } = serve(VMS);
  const released = releaseRemotely({ run: 'a/b', stage: 'test' }, client, context);
  await expect(released).rejects.toThrow('the stage `test` of run a/b kept no VM');
  expect(ended).toEqual([]);
});

test.each([[undefined], [{}], [[null]], [[{ runId: 'a/b', stage: 'build' }]]])(
  'an answer with %j is not one of Voidbox',
  async (vms) => {
    const released = releaseRemotely({ run: 'a/b', stage: undefined }, serve(vms).client, context);
    await expect(released).rejects.toMatchObject({ code: 'cli/no-service' });
  },
);
