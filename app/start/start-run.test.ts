import { expect, test } from 'vitest';
import { compileText } from '../../domain/language/load.ts';
import type { Stores } from '../../store/stores.ts';
import type { CliContext } from '../../cli/context.ts';
import { requestOf } from './start-run.ts';

const { plan } = compileText('kind: workflow\nname: shop\nworkflow: { steps: [{ name: a, run: ls }] }\n', 'x.yaml', {
  baseDir: null,
});
const STORES = { artifacts: {}, records: {} } as unknown as Stores;
const CONTEXT = { env: { temporalConfigured: true } } as unknown as CliContext;
const OPTIONS = { written: plan!, mock: null, mockAgents: null, runId: 'shop-2', input: null };

test('the input of a retry without a plan has the name of the plan, for readers of its history', async () => {
  const origin = { runId: 'shop-1', kind: 'retry', from: null } as const;
  const from = { origin, isSamePlan: true } as never;
  expect(await requestOf({ ...OPTIONS, from }, STORES, CONTEXT)).toEqual({ name: 'shop', origin });
});

test('the input of another run has its plan, which has the name', async () => {
  const request = await requestOf({ ...OPTIONS, from: null }, STORES, CONTEXT);
  expect(request).toMatchObject({ plan: { name: 'shop' } });
  expect(request).not.toHaveProperty('name');
});
