import { expect, test } from 'vitest';
import { WEBHOOK } from '../../test/conformance/deployments.ts';
import { createUnavailableError, type Database } from './database.ts';
import { createDecisions } from './delivery-decisions.ts';

const KEYS = { dedupe: null, debounce: null, batch: null, rate: null, order: null };

test.each([
  ['that is away fails together decisions that ask at once', createUnavailableError('away'), 2],
  ['whose transaction fails for another reason is asked once more for each', new Error('a bug'), 4],
])('a database %s', async (_what, error, calls) => {
  let count = 0;
  const transact = (): Promise<never> => {
    count += 1;
    return Promise.reject(error);
  };
  const decide = createDecisions({ transact } as unknown as Database);
  const ask = (id: string): Promise<unknown> =>
    decide({ id, token: 't', nowMs: 0, leaseMs: 1, trigger: WEBHOOK, keys: KEYS, decide: () => expect.fail() });
  const results = await Promise.allSettled(['a', 'b', 'c'].map(ask));
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  expect(count).toBe(calls);
});
