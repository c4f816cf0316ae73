import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { DataRef } from '../../domain/plan/plan.ts';
import type { ActivityDeps } from '../deps.ts';
import { beginItems, type BeginItemsRequest, createItemLists } from './items.ts';

/** Begins a list with the output of stage `src`. @returns the JSON of each item, or the message of the failure */
async function begin(output: string | Uint8Array, path: readonly string[] = []): Promise<readonly string[] | string> {
  const stored = new Map<string, Buffer>();
  const records = new Map<string, unknown>();
  const artifacts = {
    async put(data: AsyncIterable<Uint8Array>): Promise<DataRef> {
      const parts: Uint8Array[] = [];
      for await (const part of data) parts.push(part);
      return keep(Buffer.concat(parts));
    },
    open: ({ sha256 }: DataRef) => [stored.get(sha256)!],
  };
  const keep = (bytes: Buffer): DataRef => {
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    stored.set(sha256, bytes);
    return { sha256, sizeBytes: bytes.length, mediaType: 'application/json' };
  };
  const deps = {
    artifacts,
    records: {
      get: (_: string, name: string) => records.get(name),
      put: (_: string, name: string, value: unknown) => void records.set(name, value),
    },
    events: { find: () => null, append: () => [] },
    now: () => 0,
  } as unknown as ActivityDeps;
  const request = {
    runId: 'r',
    stage: 's',
    instance: [],
    attempt: 1,
    execKey: 's/1',
    each: { list: { kind: 'stage-output', stage: 'src', path }, maxParallel: 1, failFast: false, allowFailures: 0 },
    mostItems: 100,
    lists: 1,
    cancelled: false,
    upstream: { src: { output: keep(Buffer.from(output)), outputs: {} } },
    events: [],
  } as unknown as BeginItemsRequest;
  let count: number;
  try {
    ({ count } = await beginItems(deps, request));
  } catch (error) {
    return (error as Error).message;
  }
  const lists = createItemLists(deps);
  const items = Array.from({ length: count }, async (_, item) => lists.itemOf('r', [{ part: 's', item }]));
  return (await Promise.all(items)).map((item) => item!.text);
}

test('an item keeps the digits of its numbers and a key of any name', async () => {
  const items = [
    '18446744073709551615',
    '1.0',
    '{"__proto__":{"a":1e3},"constructor":-0}',
    '"\\n"',
    '[null,true,0.10]',
  ];
  expect(await begin(` [${items.join(' ,\n ')}]\n`)).toEqual(items);
  expect(await begin(`{"__proto__":{"list":[${items[0]}]}}`, ['__proto__', 'list'])).toEqual([items[0]]);
});

test.each([
  [
    '{"a":1}\n{"a":2}\n',
    'is not JSON: there is something else at line 2, column 1; it begins with "{\\"a\\":1} {\\"a\\":2} ". It has several JSON values',
  ],
  ['```json\n[1,2]\n```\n', 'line 1, column 1; it begins with "```json [1,2] ``` ". It is in a Markdown code fence'],
  ['\uFEFF[1,2]\n', 'it begins with "<byte order mark>[1,2] ". It has a byte order mark'],
  [
    '[{"port": [redacted]}]',
    'line 1, column 12; it begins with "[{\\"port\\": [redacted]}]". The value of a host variable was',
  ],
  ['[1,\n 2,\n x]', 'there is something else at line 3, column 2; it begins with "[1, 2, x]"'],
  ['[1, 2', 'is not JSON: it ends too early; it begins with "[1, 2"'],
  [' \n', 'is not JSON: it is empty'],
  [new Uint8Array([0x5b, 0xff, 0x5d]), 'is not UTF-8 text'],
  ['{"a":1}', 'is JSON and not a list'],
])('an output without a list is an error that shows its place and its beginning: %j', async (output, message) => {
  expect(await begin(output)).toContain(message);
});

test('a missing member of the output is an error', async () => {
  expect(await begin('{"a":[]}', ['constructor'])).toContain('has no member "constructor"');
});
