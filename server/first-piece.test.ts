import { expect, test } from 'vitest';
import { readFirstPiece } from './first-piece.ts';

function createSource(pieces: readonly string[]): { readonly source: AsyncGenerator<string>; isEnded(): boolean } {
  let isEnded = false;
  async function* generate(): AsyncGenerator<string> {
    try {
      yield* pieces;
    } finally {
      isEnded = true;
    }
  }
  return { source: generate(), isEnded: () => isEnded };
}

test('the source has all its pieces', async () => {
  const read = await readFirstPiece(createSource(['a', 'b']).source);
  expect([await read.next(), await read.next(), await read.next()]).toEqual([
    { done: false, value: 'a' },
    { done: false, value: 'b' },
    { done: true, value: undefined },
  ]);
});

test('a source without a reader ends', async () => {
  const { source, isEnded } = createSource(['a', 'b']);
  const read = await readFirstPiece(source);
  expect(isEnded()).toBe(false);
  await read.return!();
  expect(isEnded()).toBe(true);
});

test('an error before the first piece is thrown at once', async () => {
  const fail = async function* (): AsyncGenerator<string> {
    await Promise.reject(new Error('damaged'));
    yield 'a';
  };
  await expect(readFirstPiece(fail())).rejects.toThrow('damaged');
});
