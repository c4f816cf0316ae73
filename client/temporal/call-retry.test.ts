import { expect, test } from 'vitest';
import { callRetry } from './call-retry.ts';

const status = (code: number, details: string): Parameters<ReturnType<typeof callRetry>['delayFunction']>[1] =>
  ({ code, details }) as unknown as Parameters<ReturnType<typeof callRetry>['delayFunction']>[1];

test.each([
  // [code, words, most of the first wait in ms, least of it]
  [8, 'workflow operation can not be applied because workflow is closing', 50, 20],
  [8, 'limit on number of concurrent in-flight updates has been reached (10)', 2_100, 1_300],
  [14, 'connection refused', 210, 130],
])('a call that ended with status %i, "%s", is made again within %i ms', (code, details, most, least) => {
  const wait = callRetry().delayFunction(1, status(code, details));
  expect(wait).toBeLessThanOrEqual(most);
  expect(wait).toBeGreaterThanOrEqual(least);
});
