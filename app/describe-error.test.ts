import { expect, test } from 'vitest';
import { describeError } from './describe-error.ts';

const makeRaw = (code: number, details: string): Error =>
  Object.assign(new Error(`${code} STATUS: ${details}`), { code, details, metadata: {} });

test.each([
  [14, 'No connection established', 'the connection to the Temporal server was lost: No connection established'],
  [4, 'Deadline exceeded after 5s', 'the Temporal server did not answer in time: Deadline exceeded after 5s'],
])(
  'a call that failed with the status %d of gRPC is no bug, with and without the client of the SDK',
  async (code, details, message) => {
    const facts = { fault: 'environment', code: 'cli/no-server', message };
    expect(await describeError(makeRaw(code, details))).toMatchObject(facts);
    const wrapped = new Error('Failed to describe workflow', { cause: makeRaw(code, details) });
    expect(await describeError(wrapped)).toMatchObject(facts);
  },
);

test('another status, and the exit code of a program, stay bugs', async () => {
  expect(await describeError(makeRaw(13, 'internal'))).toBeNull();
  expect(await describeError(Object.assign(new Error('git'), { code: 14 }))).toBeNull();
});
