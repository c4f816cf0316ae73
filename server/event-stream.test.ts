import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { streamTexts } from './event-stream.ts';

function sourceOf(texts: readonly string[]): { readonly source: AsyncGenerator<string>; readonly read: string[] } {
  const read: string[] = [];
  const source = (async function* () {
    for (const text of texts) {
      read.push(text);
      yield text;
    }
  })();
  return { source, read };
}

const OPTIONS = { stalledMs: 60_000, pieceBytes: 4, heartbeat: null, onGone: () => undefined };

test('a stream has every text, in pieces', async () => {
  const { source } = sourceOf(['one', 'three and four', '']);
  const pieces: string[] = [];
  for await (const piece of streamTexts(source, OPTIONS)) pieces.push(Buffer.from(piece).toString());
  expect(pieces.join('')).toBe('onethree and four');
  expect(Math.max(...pieces.map(({ length }) => length))).toBe(4);
});

test('a text is read from the source only when the reader wants it', async () => {
  const { source, read } = sourceOf(['1111', '2222', '3333']);
  const reader = streamTexts(source, OPTIONS).getReader();
  await sleep(20);
  expect(read).toEqual([]);
  await reader.read();
  await sleep(20);
  expect(read).toEqual(['1111']);
  await reader.cancel();
});

test('a reader that does not read is disconnected, and its source ends', async () => {
  let gone = 0;
  const { source, read } = sourceOf(['1111', '2222', '3333']);
  const reader = streamTexts(source, { ...OPTIONS, stalledMs: 20, onGone: () => (gone += 1) }).getReader();
  await reader.read();
  await expect(reader.closed).rejects.toThrow('accepted no byte for 20 ms');
  await expect(reader.read()).rejects.toThrow('accepted no byte');
  expect({ gone, read }).toEqual({ gone: 1, read: ['1111'] });
  expect((await source.next()).done).toBe(true);
});

test('a reader that is slower than the source is not disconnected', async () => {
  const { source } = sourceOf(['1111', '2222', '3333']);
  const texts: string[] = [];
  for await (const piece of streamTexts(source, { ...OPTIONS, stalledMs: 500 })) {
    await sleep(20);
    texts.push(Buffer.from(piece).toString());
  }
  expect(texts).toEqual(['1111', '2222', '3333']);
});

test('a silent stream adds nothing to the read that it waits for', async () => {
  let reactions = 0;
  const pending = new Promise<IteratorResult<string>>(() => undefined);
  const source: AsyncIterator<string> = {
    next() {
      const then = pending.then.bind(pending);
      // oxlint-disable-next-line unicorn/no-thenable
      return Object.assign(pending, { then: (...args: Parameters<typeof then>) => ((reactions += 1), then(...args)) });
    },
  };
  const reader = streamTexts(source, { ...OPTIONS, heartbeat: { text: ':', everyMs: 1 } }).getReader();
  for (let count = 0; count < 20; count += 1) expect(Buffer.from((await reader.read()).value!).toString()).toBe(':');
  expect(reactions).toBe(1);
  await reader.cancel();
});

test('a source that fails ends the stream with its error', async () => {
  let gone = 0;
  const source = (async function* (): AsyncGenerator<string> {
    yield '1111';
    throw new Error('damaged');
  })();
  const reader = streamTexts(source, { ...OPTIONS, onGone: () => (gone += 1) }).getReader();
  await reader.read();
  await expect(reader.read()).rejects.toThrow('damaged');
  expect(gone).toBe(1);
});
