import { describe, expect, test } from 'vitest';
import { createRedactor, REDACTED, redactText, type RedactedPiece, type Secret } from './redactor.ts';

const secrets = (...values: string[]): Secret[] => values.map((value, index) => ({ name: `S${index}`, value }));

/** Pushes the text in pieces of one size and checks the offsets on the way. */
function through(text: string, known: Secret[], size: number, offset = 0): string {
  const stream = createRedactor(known).stream(offset);
  const input = Buffer.from(text);
  const pieces: RedactedPiece[] = [];
  for (let at = 0; at < input.length; at += size) {
    // One buffer for all chunks, as a reader's may be: nothing may be kept of it.
    const chunk = Buffer.from(input.subarray(at, at + size));
    pieces.push(...stream.push(chunk).map((piece) => ({ ...piece, bytes: Buffer.from(piece.bytes) })));
    chunk.fill(0x21);
  }
  pieces.push(...stream.flush());
  let at = offset;
  for (const piece of pieces) {
    expect(piece.from).toBe(at);
    expect(piece.to).toBeGreaterThan(piece.from);
    at = piece.to;
  }
  expect(at).toBe(offset + input.length);
  return Buffer.concat(pieces.map(({ bytes }) => bytes)).toString();
}

/** What the stream should give, found the slow way: every byte of every occurrence. */
function expected(text: string, values: readonly string[]): string {
  const spans = values.flatMap((value) =>
    [...text]
      .map((_, from) => from)
      .filter((from) => text.startsWith(value, from))
      .map((from) => [from, from + value.length] as const),
  );
  spans.sort((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const [from, to] of spans) {
    const last = merged.at(-1);
    if (last !== undefined && from < last[1]) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  let result = '';
  let at = 0;
  for (const [from, to] of merged) {
    result += text.slice(at, from) + REDACTED;
    at = to;
  }
  return result + text.slice(at);
}

describe('a stream', () => {
  test.each([1, 2, 3, 5, 7, 100])('in chunks of %d gives no secret', (size) => {
    expect(through('a hunter2! b hunter2! c', secrets('hunter2!'), size)).toBe(`a ${REDACTED} b ${REDACTED} c`);
    expect(through('almost hunter2 and the end hunter', secrets('hunter2!'), size)).toBe(
      'almost hunter2 and the end hunter',
    );
  });

  test('with overlapping secrets takes out all of them', () => {
    const values = ['abcdefgh', 'cdefghij', 'efghijklmn'];
    for (const size of [1, 3, 50]) expect(through('xabcdefghijklmnx', secrets(...values), size)).toBe(`x${REDACTED}x`);
  });

  test('goes on from an offset', () => {
    expect(through('b hunter2!', secrets('hunter2!'), 4, 1_000)).toBe(`b ${REDACTED}`);
  });

  test('of random text gives what the slow way gives', () => {
    let seed = 7;
    const random = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
    for (let round = 0; round < 300; round += 1) {
      const word = (length: number): string => Array.from({ length }, () => 'ab'[random(2)]).join('');
      const values = Array.from({ length: 1 + random(4) }, () => word(6 + random(3)));
      const text = word(random(120));
      expect(through(text, secrets(...values), 1 + random(9)), `${text} without ${values.join()}`).toBe(
        expected(text, values),
      );
    }
  });

  test('that is one long run of a secret is given out in parts', () => {
    const stream = createRedactor(secrets('aaaaaa')).stream();
    const chunk = Buffer.alloc(100_000, 'a');
    expect(stream.push(chunk)).toHaveLength(1);
    const rest = [...stream.push(chunk), ...stream.flush()];
    expect(rest.every(({ bytes }) => Buffer.from(bytes).toString() === REDACTED)).toBe(true);
    expect(rest.at(-1)?.to).toBe(200_000);
  });

  test('may be resumed at the end of any piece', () => {
    const text = 'one hunter2! two hunter2! three';
    const known = secrets('hunter2!');
    const stream = createRedactor(known).stream();
    const first = stream.push(Buffer.from(text).subarray(0, 20));
    const before = Buffer.concat(first.map(({ bytes }) => bytes)).toString();
    const cursor = first.at(-1)!.to;
    expect(before + through(text.slice(cursor), known, 3, cursor)).toBe(`one ${REDACTED} two ${REDACTED} three`);
  });
});

test('a secret is known as JSON, as part of a URL and by its lines', () => {
  const known = secrets('pa"ss/wörd', '-----BEGIN-----\nc2VjcmV0IGtleQ==\n-----END-----\n');
  expect(redactText('{"p":"pa\\"ss/wörd"} ?p=pa%22ss%2Fw%C3%B6rd', known)).toBe(`{"p":"${REDACTED}"} ?p=${REDACTED}`);
  expect(redactText('key: c2VjcmV0IGtleQ==', known)).toBe(`key: ${REDACTED}`);
});

test('short values are named, not redacted', () => {
  const redactor = createRedactor(secrets('12345', '', '123456'));
  expect(redactor.tooShort).toEqual(['S0']);
  expect(redactor.text('12345 123456')).toBe(`12345 ${REDACTED}`);
});

test('without secrets everything passes', () => {
  expect(through('hello', [], 2)).toBe('hello');
});
