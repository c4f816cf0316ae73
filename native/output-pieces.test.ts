import { expect, test } from 'vitest';
import type { OutputPiece } from './api.ts';
import { readOutputPieces } from './output-pieces.ts';

function piece(stream: number, text: string): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(stream, 0);
  head.writeUInt32BE(Buffer.byteLength(text), 1);
  return Buffer.concat([head, Buffer.from(text)]);
}

async function read(whole: Buffer, size: number): Promise<{ text: string; isWhole: boolean }> {
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < whole.length; at += size) yield whole.subarray(at, at + size);
  }
  const pieces = readOutputPieces(chunks(), 'it');
  let text = '';
  let last = '';
  for (;;) {
    const next: IteratorResult<OutputPiece, boolean> = await pieces.next();
    if (next.done === true) return { text, isWhole: next.value };
    if (next.value.stream !== last) text += `<${next.value.stream}>`;
    last = next.value.stream;
    text += Buffer.from(next.value.bytes).toString();
  }
}

const BOTH = Buffer.concat([piece(1, 'out1'), piece(2, 'err1'), piece(1, 'out2'), piece(1, '\n')]);

test('pieces keep their order however chunks cut them, and say whether they are whole', async () => {
  for (const size of [1, 2, 5, 7, 1_000]) {
    const text = '<stdout>out1<stderr>err1<stdout>out2\n';
    expect(await read(Buffer.concat([BOTH, piece(0, '')]), size)).toEqual({ text, isWhole: true });
    expect(await read(BOTH, size)).toEqual({ text, isWhole: false });
  }
});

test('what is not a piece is an error', async () => {
  const huge = Buffer.from([1, 255, 255, 255, 255]);
  for (const wrong of [piece(3, 'x'), piece(1, ''), piece(0, 'x'), huge])
    await expect(read(Buffer.concat([piece(1, 'a'), wrong]), 3)).rejects.toThrow(/^it: a piece of/);
});
