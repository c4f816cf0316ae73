/** Events of CloudEvents 1.0, as the library of the standard writes them and as an attacker does. */
import { CloudEvent, HTTP } from 'cloudevents';
import { describe, expect, test } from 'vitest';
import type { AppError } from '../app-error.ts';
import { ATTRIBUTE_LIMITS } from './attributes.ts';
import { BATCHED_TYPE, STRUCTURED_TYPE } from './media-types.ts';
import { MOST_BATCH_EVENTS, readEvents, type ReadEvent, type ReadEvents, toMediaType } from './read-events.ts';

const REQUIRED = { specversion: '1.0', id: 'i', source: '/s', type: 't' };

async function readBody(body: string | Uint8Array, contentType: string | null = STRUCTURED_TYPE): Promise<ReadEvents> {
  return await readEvents({ headers: new Map(), body: Buffer.from(body), contentType });
}

async function readOne(event: object): Promise<ReadEvent> {
  return (await readBody(JSON.stringify({ ...REQUIRED, ...event }))).events[0]!;
}

async function readHeaders(headers: Readonly<Record<string, string | readonly string[]>>, contentType: string | null) {
  const all = Object.entries({ 'ce-specversion': '1.0', 'ce-id': 'i', 'ce-source': '/s', 'ce-type': 't', ...headers });
  const lists = all.map(([name, value]) => [name, Array.isArray(value) ? value : [value]] as const);
  const { events } = await readEvents({ headers: new Map(lists as never), body: Buffer.from('x'), contentType });
  return events[0]!;
}

async function refusalOf(reading: Promise<unknown>): Promise<readonly [string, string]> {
  const error = (await reading.then(
    () => null,
    (thrown: unknown) => thrown,
  )) as AppError | null;
  return [error?.code ?? 'accepted', error?.message ?? ''];
}

function textOf({ data }: ReadEvent): string {
  return Buffer.from(data).toString();
}

describe('an event', () => {
  const event = new CloudEvent({
    id: 'a',
    source: 'https://x.example/a',
    type: 'order',
    subject: '10 %',
    datacontenttype: 'application/json',
    partition: 7,
    done: true,
    data: { n: 1 },
  });

  test.each(['structured', 'binary'] as const)('that the library writes in the %s form is read', async (form) => {
    const { headers, body } = HTTP[form](event);
    const lower = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), [String(value)]]));
    const contentType = toMediaType(lower.get('content-type')![0]!);
    const { isBatch, events } = await readEvents({ headers: lower, body: Buffer.from(body as string), contentType });
    expect(isBatch).toBe(false);
    expect(events[0]!.attributes).toMatchObject({
      id: 'a',
      source: 'https://x.example/a',
      type: 'order',
      subject: '10 %',
      partition: '7',
      done: 'true',
    });
    expect([textOf(events[0]!), events[0]!.contentType]).toEqual(['{"n":1}', 'application/json']);
  });

  test('keeps the digits of numbers in its data', async () => {
    const body = `{"specversion":"1.0","id":"i","source":"/s","type":"t","data":{"a":18446744073709551615,"b":1.0}}`;
    expect(textOf((await readBody(body)).events[0]!)).toBe('{"a":18446744073709551615,"b":1.0}');
  });

  test.each<[object, string, string]>([
    [{}, '', 'text/plain'],
    [{ data: null }, 'null', 'application/json'],
    [{ data: 'a' }, '"a"', 'application/json'],
    [{ data: '<a/>', datacontenttype: 'Text/XML; charset=utf-8' }, '<a/>', 'text/xml'],
    [{ data: [1], datacontenttype: 'text/xml' }, '[1]', 'application/json'],
    [{ data: 'a', datacontenttype: 'application/x+json' }, '"a"', 'application/x+json'],
    [{ data_base64: 'AP8=', datacontenttype: 'image/png' }, '\0\uFFFD', 'image/png'],
    [{ data_base64: '' }, '', 'application/octet-stream'],
    [{ subject: null, data: 1 }, '1', 'application/json'],
  ])('with %j has the data %j of the type %s', async (given, text, contentType) => {
    const event = await readOne(given);
    expect([textOf(event), event.contentType]).toEqual([text, contentType]);
    expect(event.attributes).not.toHaveProperty('data');
    expect(event.attributes['subject']).toBeUndefined();
  });

  test('in the binary form has any bytes of any type, and needs a type for them', async () => {
    const read = await readHeaders({ 'ce-subject': 'caf%C3%A9 100%' }, 'image/png');
    expect([read.attributes['subject'], textOf(read), read.contentType]).toEqual(['café 100%', 'x', 'image/png']);
    expect(await refusalOf(readHeaders({}, null))).toMatchObject(['api/unsupported-body', /no `Content-Type`/]);
  });
});

describe('a batch', () => {
  test('has its events in their order, and may be empty', async () => {
    const body = [1, 2].map((n) => ({ ...REQUIRED, id: `e${n}`, data: n }));
    const { isBatch, events } = await readBody(JSON.stringify(body), BATCHED_TYPE);
    expect([isBatch, events.map(({ attributes }) => attributes.id), events.map(textOf)]).toEqual([
      true,
      ['e1', 'e2'],
      ['1', '2'],
    ]);
    expect(await readBody('[]', BATCHED_TYPE)).toEqual({ isBatch: true, events: [] });
  });

  test('has a limit of events', async () => {
    const make = (count: number): string => JSON.stringify(Array.from({ length: count }, () => REQUIRED));
    expect((await readBody(make(MOST_BATCH_EVENTS), BATCHED_TYPE)).events).toHaveLength(MOST_BATCH_EVENTS);
    expect(await refusalOf(readBody(make(MOST_BATCH_EVENTS + 1), BATCHED_TYPE))).toEqual([
      'api/too-large',
      'the batch has 101 events, and at most 100 are allowed',
    ]);
  });

  test('with one wrong event is refused, and the event is named', async () => {
    const body = JSON.stringify([REQUIRED, { ...REQUIRED, id: '' }]);
    expect(await refusalOf(readBody(body, BATCHED_TYPE))).toEqual([
      'api/invalid-request',
      'event 2 of the batch has no attribute `id`',
    ]);
  });
});

describe('a refused event', () => {
  test.each<[string, string | Uint8Array]>([
    ['not UTF-8', new Uint8Array([0xff])],
    ['not JSON', '{'],
    ['nested more than 200 deep', `${'['.repeat(5_000)}${']'.repeat(5_000)}`],
    ['not a JSON object', '[]'],
    ['no attribute `specversion`', '{"id":"i","source":"/s","type":"t"}'],
  ])('is %s', async (reason, body) => {
    expect(await refusalOf(readBody(body))).toEqual(['api/invalid-request', expect.stringContaining(reason)]);
  });

  test.each<[string, object]>([
    ['only 1.0 is read', { specversion: '0.3' }],
    ['only 1.0 is read', { specversion: '2' }],
    ['no attribute `source`', { source: '' }],
    ['no attribute `id`', { id: null }],
    ['"Time"', { Time: 'x' }],
    ['"a_b"', { a_b: 'x' }],
    ['"__proto__"', JSON.parse('{"__proto__": "x"}') as object],
    ['neither a text nor a boolean', { extension: { a: 1 } }],
    ['neither a text nor a boolean', { extension: 1.5 }],
    ['neither a text nor a boolean', { extension: 2 ** 31 }],
    ['control character', { subject: 'a\r\nb' }],
    ['control character', { subject: '\uD800' }],
    ['`time` must match', { time: 'yesterday' }],
    ['breaks the standard', { source: 'a b' }],
    ['breaks the standard', { dataschema: '' }],
    ['no media type', { datacontenttype: 'json' }],
    ['both `data` and `data_base64`', { data: 1, data_base64: 'AA==' }],
    ['not base64', { data_base64: 'A A' }],
    ['not base64', { data_base64: 7 }],
  ])('says %s for %j', async (reason, given) => {
    // A spread would lose `__proto__`.
    const event = Object.assign(Object.create(null) as object, REQUIRED);
    for (const [name, value] of Object.entries(given)) Object.defineProperty(event, name, { value, enumerable: true });
    expect(await refusalOf(readBody(JSON.stringify(event)))).toEqual([
      'api/invalid-request',
      expect.stringContaining(reason),
    ]);
  });

  test('has an attribute twice as a header, or one that the binary form does not have', async () => {
    expect(await refusalOf(readHeaders({ 'ce-id': ['a', 'b'] }, 'text/plain'))).toMatchObject([
      'api/invalid-request',
      /"ce-id" is there 2 times/,
    ]);
    expect(await refusalOf(readHeaders({ 'ce-datacontenttype': 'a/b' }, 'text/plain'))).toMatchObject([
      'api/invalid-request',
      /does not exist in the binary form/,
    ]);
    expect(await refusalOf(readHeaders({ 'ce-subject': '%ff' }, 'text/plain'))).toMatchObject([
      'api/invalid-request',
      /is not UTF-8/,
    ]);
  });

  test('is a request of another kind', async () => {
    expect(await refusalOf(readBody('{}', 'application/json'))).toMatchObject([
      'api/unsupported-body',
      /not an event of CloudEvents/,
    ]);
  });
});

test('attributes have limits of their number, names and values', async () => {
  const { count, nameCharacters, valueCharacters } = ATTRIBUTE_LIMITS;
  const make = (extensions: number): object =>
    Object.fromEntries(Array.from({ length: extensions }, (_value, index) => [`x${index}`, 'v']));
  const most = count - Object.keys(REQUIRED).length;
  expect(Object.keys((await readOne(make(most))).attributes)).toHaveLength(count);
  expect(await refusalOf(readOne(make(most + 1)))).toMatchObject(['api/invalid-request', /49 attributes; at most 48/]);
  expect(await readOne({ ['n'.repeat(nameCharacters)]: 'v'.repeat(valueCharacters) })).toBeDefined();
  expect(await refusalOf(readOne({ ['n'.repeat(nameCharacters + 1)]: 'v' }))).toMatchObject([
    'api/invalid-request',
    /at most 64/,
  ]);
  expect(await refusalOf(readOne({ n: 'v'.repeat(valueCharacters + 1) }))).toMatchObject([
    'api/invalid-request',
    /more than 1024 characters/,
  ]);
});
