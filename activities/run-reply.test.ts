import { expect, test } from 'vitest';
import { REPLY_TEXT_BYTES, type RunOutcome } from '../domain/run/event.ts';
import { addOutputText } from './run-reply.ts';

const outcomeOf = (bytes: Uint8Array): RunOutcome => ({
  state: 'succeeded',
  failedStage: null,
  failure: null,
  output: { sha256: 'a'.repeat(64), sizeBytes: bytes.length, mediaType: 'text/plain' },
});
const storeOf = (bytes: Uint8Array) => ({
  async *open() {
    yield await Promise.resolve(bytes.subarray(0, 1));
    yield bytes.subarray(1);
  },
});
const reply = (bytes: Uint8Array) => addOutputText(storeOf(bytes), outcomeOf(bytes));

test('the reply contains an output of up to 2 KiB as text, with its hash', async () => {
  const longest = Buffer.from('ü'.repeat(REPLY_TEXT_BYTES / 2));
  expect(longest).toHaveLength(2_048);
  expect(await reply(longest)).toEqual({ ...outcomeOf(longest), outputText: longest.toString() });
  expect(await reply(Buffer.from(''))).toMatchObject({ outputText: '' });
});

test.each([
  ['is longer', Buffer.alloc(REPLY_TEXT_BYTES + 1, 'x')],
  ['is not UTF-8', Buffer.from([0xc3, 0x28])],
])('an output that %s has no text', async (_what, bytes) => {
  expect(await reply(bytes)).toEqual(outcomeOf(bytes));
});

test('an output that cannot be read has no text, and the run ends', async () => {
  const bytes = Buffer.from('x');
  const artifacts = {
    open: () => {
      throw new Error('the disk is gone');
    },
  };
  expect(await addOutputText(artifacts, outcomeOf(bytes))).toEqual(outcomeOf(bytes));
});

test('a run without an output has no text', async () => {
  const outcome: RunOutcome = { state: 'cancelled', failedStage: null, failure: null, output: null };
  expect(await addOutputText(storeOf(Buffer.from('')), outcome)).toEqual(outcome);
});
