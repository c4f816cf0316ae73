import { expect, test } from 'vitest';
import { makeDelivery } from '../../test/conformance/deliveries.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { createTokenCaller } from '../../test/rig/access/token-caller.ts';
import { readChain } from './read-chain.ts';

test('a chain begins with its first run, and hides runs that the caller may not see', async () => {
  const { triggers } = createMemoryAccess();
  const link = (deployment: string, delivery: string, links: number) => ({
    upstream: { deployment, runId: `${deployment}-${delivery}`, delivery, links },
  });
  for (const [id, deployment, upstream] of [
    ['a', 'build', { upstream: null }],
    ['b', 'test', link('build', 'a', 1)],
    ['c', 'publish', link('test', 'b', 2)],
  ] as const)
    await triggers.deliveries.accept(makeDelivery({ id, deployment, ...upstream }));
  const last = link('publish', 'c', 3);
  const seen = { delivery: 'c', deployment: 'publish', runId: 'publish-c' };
  expect(await readChain(last, { kind: 'owner' }, triggers)).toEqual([
    { delivery: 'a', deployment: 'build', runId: 'build-a' },
    { delivery: 'b', deployment: 'test', runId: 'test-b' },
    seen,
  ]);
  const hidden = { delivery: null, deployment: null, runId: null };
  expect(await readChain(last, createTokenCaller({ runs: ['publish-*'] }), triggers)).toEqual([hidden, hidden, seen]);
  expect(await readChain({ upstream: null }, { kind: 'owner' }, triggers)).toEqual([]);
  // A row that names itself ends the chain.
  await triggers.deliveries.accept(makeDelivery({ id: 'x', ...link('x', 'x', 5) }));
  expect(await readChain(link('x', 'x', 5), { kind: 'owner' }, triggers)).toHaveLength(1);
});
