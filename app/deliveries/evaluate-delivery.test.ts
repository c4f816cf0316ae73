import { expect, test } from 'vitest';
import { evaluateTrigger } from '../../domain/language/expression/evaluate-trigger.ts';
import type { Trigger } from '../../domain/delivery/trigger.ts';
import type { DeliveryRow } from '../../store/triggers.ts';
import { WEBHOOK } from '../../test/conformance/deployments.ts';
import { createEvaluateDelivery } from './evaluate-delivery.ts';

const evaluate = createEvaluateDelivery({ evaluateTrigger: (question) => Promise.resolve(evaluateTrigger(question)) });

async function ask(
  change: Partial<Trigger>,
  body: string | Uint8Array,
  delivery: Partial<Pick<DeliveryRow, 'contentType' | 'senderId' | 'headers'>> = {},
) {
  const row = { contentType: 'application/json', senderId: null, headers: {}, ...delivery } as DeliveryRow;
  return await evaluate({ ...WEBHOOK, ...change }, row, typeof body === 'string' ? Buffer.from(body) : body);
}

test('a delivery without expressions is taken as it is, whatever its bytes', async () => {
  const answer = await ask({}, new Uint8Array([0xff, 0x00]));
  expect(answer).toMatchObject({ holds: true, params: {}, input: null });
});

test('conditions, parameters and keys read the payload and the headers', async () => {
  const answer = await ask(
    {
      when: 'input.action in ["opened"] && headers["x-github-event"] == "pull_request"',
      params: { number: '${{ input.number }}', title: 'PR ${{ input.title }}!', plain: '$${{ x' },
      input: '${{ input.pull }}',
      order: { key: '${{ input.number }}' },
      rate: { key: null, limit: 1, perMs: 1, onLimit: 'hold' },
    },
    '{"action":"opened","number":18446744073709551615,"title":"a\\"b","pull":{"f":1.0}}',
    { headers: { 'x-github-event': 'pull_request' } },
  );
  expect(answer).toMatchObject({
    holds: true,
    params: { number: '18446744073709551615', title: 'PR a"b!', plain: '${{ x' },
    input: '{"f":1.0}',
    keys: { order: '18446744073709551615', rate: '', debounce: null, batch: null },
  });
});

test('a condition that does not hold evaluates nothing else', async () => {
  expect(await ask({ when: 'input.a == 1', params: { b: '${{ input.none }}' } }, '{"a":2}')).toMatchObject({
    holds: false,
    params: {},
  });
});

test('the key of a delivery is its own, else that of the sender, else the hash of its body', async () => {
  const keyOf = async (change: Partial<Trigger>, senderId: string | null) => {
    const answer = await ask(change, '{"id":7}', { senderId });
    return 'keys' in answer ? answer.keys.dedupe : answer.message;
  };
  const own = { dedupe: { key: '${{ input.id }}', forMs: 1 } };
  expect([await keyOf(own, 'sent'), await keyOf({}, 'sent')]).toEqual(['7', 'sent']);
  expect(await keyOf({}, null)).toMatch(/^[0-9a-f]{64}$/);
});

test('a key of 256 bytes is kept, and a longer one is replaced by its hash', async () => {
  const orderOf = async (key: string) => {
    const answer = await ask({ order: { key: '${{ input }}' } }, JSON.stringify(key));
    return 'keys' in answer ? answer.keys.order : answer.message;
  };
  const longest = 'é'.repeat(128);
  expect(await orderOf(longest)).toBe(longest);
  expect(await orderOf(`${longest}x`)).toMatch(/^sha256:[0-9a-f]{64}$/);
});

test.each([
  [{ when: 'input.a == 1' }, '{"a":', 'trigger/bad-payload', 'not JSON'],
  [{ when: 'input.a == 1' }, new Uint8Array([0xff]), 'trigger/bad-payload', 'not UTF-8'],
  [{ when: 'input.none == 1' }, '{}', 'trigger/bad-expression', '`when` of the trigger push'],
  [{ params: { n: '${{ input.none }}' } }, '{}', 'trigger/bad-expression', '`params.n`'],
  [{ params: { n: '${{ input.a }}' } }, '{"a":null}', 'trigger/bad-expression', 'null'],
  [{ params: { n: '${{ input.a }}' } }, '{"a":"\\u0000"}', 'trigger/bad-expression', 'zero byte'],
  [{ params: { n: '${{ input.a }}' } }, '{"a":"\\ud800"}', 'trigger/bad-expression', 'surrogate'],
  [{ when: 'input' }, '7', 'trigger/bad-expression', 'a number'],
  [{ when: 'input.a' }, `${'['.repeat(10_000)}`, 'trigger/bad-payload', 'nested'],
])('the trigger %j refuses the payload %s', async (change, body, code, text) => {
  const answer = await ask(change, body);
  expect(answer).toMatchObject({ code, message: expect.stringContaining(text) });
});

test('names of a prototype are ordinary keys', async () => {
  const answer = await ask(
    { params: { a: '${{ input.__proto__ }}', b: '${{ input.constructor }}' } },
    '{"__proto__":"x","constructor":"y"}',
  );
  expect(answer).toMatchObject({ params: { a: 'x', b: 'y' } });
});

test('fields of a form are texts, and repeated fields are lists', async () => {
  const contentType = 'application/x-www-form-urlencoded';
  const change = { params: { a: '${{ input.a }}', b: '${{ input.b[1] }}' } };
  expect(await ask(change, 'a=1+%C3%BC&b=x&b=y', { contentType })).toMatchObject({ params: { a: '1 ü', b: 'y' } });
});

test('another payload is a text', async () => {
  const change = { when: 'input.startsWith("a")', params: { a: '${{ input }}' } };
  expect(await ask(change, 'abc', { contentType: 'text/plain' })).toMatchObject({ holds: true, params: { a: 'abc' } });
});
