/** Each scheme against what its sender publishes, and against requests that are nearly right. */
import { Webhook } from 'standardwebhooks';
import { describe, expect, test } from 'vitest';
import type { HmacScheme, WebhookVerify } from '../../domain/delivery/trigger.ts';
import type { HookHeaders, HookRefusal } from './hook-request.ts';
import { chooseScheme } from './schemes.ts';
import { MOST_SIGNATURES } from './signatures.ts';

type Headers = Readonly<Record<string, string | readonly string[]>>;

interface Example {
  readonly verify: WebhookVerify;
  readonly secret: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The header with the signature. */
  readonly proof: string;
  /** The header or the part of one with the time; null: the scheme has no time. */
  readonly time: string | null;
  readonly senderId: string | null;
}

const SECRET = 'HOOK';
const HEX = /[0-9a-f]{40,}/;

/** The example of Stripe's own library, of its file `event_test_signature.json`. */
const STRIPE_BODY = `${JSON.stringify(
  {
    id: 'evt_123',
    object: 'event',
    account: 'acct_123',
    api_version: '2017-05-25',
    created: 1533204620,
    data: {
      object: {
        id: 'ii_123',
        object: 'invoiceitem',
        amount: 1000,
        currency: 'usd',
        customer: 'cus_123',
        date: 1533204620,
        description: 'Test Invoice Item',
        discountable: false,
        invoice: 'in_123',
        livemode: false,
        metadata: {},
        period: { start: 1533204620, end: 1533204620 },
        plan: null,
        proration: false,
        quantity: null,
        subscription: null,
      },
    },
    livemode: false,
    pending_webhooks: 1,
    request: { id: 'req_123', idempotency_key: 'idempotency-key-123' },
    type: 'invoiceitem.created',
  },
  null,
  2,
)}\n`;

/** The example of Slack's documentation. */
const SLACK_BODY =
  'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V' +
  '&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=' +
  '&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN' +
  '&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c';

const HMAC: HmacScheme = {
  header: 'x-signature',
  prefix: '',
  algorithm: 'sha512',
  encoding: 'base64',
  timestamp: 'x-time',
};

const EXAMPLES: Readonly<Record<string, Example>> = {
  github: {
    verify: { scheme: 'github', secret: SECRET },
    secret: "It's a Secret to Everybody",
    headers: {
      'x-hub-signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
      'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
    },
    body: 'Hello, World!',
    proof: 'x-hub-signature-256',
    time: null,
    senderId: '72d3162e-cc78-11e3-81ab-4c9367dc0958',
  },
  gitlab: {
    verify: { scheme: 'gitlab', secret: SECRET },
    secret: 'tøken 1',
    headers: {
      'x-gitlab-token': Buffer.from('tøken 1').toString('latin1'),
      'idempotency-key': 'f5e5f430-f57b-4e6e-9fac-d9128cd7232f',
    },
    body: '{"object_kind":"push"}',
    proof: 'x-gitlab-token',
    time: null,
    senderId: 'f5e5f430-f57b-4e6e-9fac-d9128cd7232f',
  },
  stripe: {
    verify: { scheme: 'stripe', secret: SECRET },
    secret: 'webhook_secret',
    headers: {
      'stripe-signature':
        't=1533204620,v1=f0bdba6d4eacbd8ad8a3bbadd7248e633ec1477f7899c124c51b39405fa36613,v0=63f3a72374a733066c4be69ed7f8e5ac85c22c9f0a6a612ab9a025a9e4ee7eef',
    },
    body: STRIPE_BODY,
    proof: 'stripe-signature',
    time: 'stripe-signature',
    senderId: 'evt_123',
  },
  slack: {
    verify: { scheme: 'slack', secret: SECRET },
    secret: '8f742231b10e8888abcd99yyyzzz85a5',
    headers: {
      'x-slack-signature': 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503',
      'x-slack-request-timestamp': '1531420618',
    },
    body: SLACK_BODY,
    proof: 'x-slack-signature',
    time: 'x-slack-request-timestamp',
    senderId: null,
  },
  'standard-webhooks': {
    verify: { scheme: 'standard-webhooks', secret: SECRET },
    secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    headers: {
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    },
    body: '{"test": 2432232314}',
    proof: 'webhook-signature',
    time: 'webhook-timestamp',
    senderId: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  },
  hmac: {
    verify: { scheme: 'hmac', secret: SECRET, ...HMAC },
    secret: 'k',
    headers: {
      // printf '1700000000.{"a":1}' | openssl dgst -sha512 -hmac k -binary | base64
      'x-signature': 'EPJj5Z7aWOEtgYN1gtFeVVbYg1qutLjIaR+mphV5VNmZvLHP6mHFHpy5/jipsmk9t8+3on/F04UwnEUUHu4oVQ==',
      'x-time': '1700000000',
    },
    body: '{"a":1}',
    proof: 'x-signature',
    time: 'x-time',
    senderId: null,
  },
};

function toHeaders(headers: Headers): HookHeaders {
  return new Map(Object.entries(headers).map(([name, value]) => [name, typeof value === 'string' ? [value] : value]));
}

const timeOf = ({ time, headers }: Example): number =>
  time === null ? 1_700_000_000_000 : Number(/\d{10}/.exec(headers[time]!)![0]) * 1_000;

interface Change {
  readonly headers?: Headers;
  readonly body?: string | Uint8Array;
  readonly secrets?: readonly string[];
  readonly laterMs?: number;
}

function verify(example: Example, change: Change = {}): HookRefusal | null {
  return chooseScheme(example.verify).verify(
    {
      headers: toHeaders({ ...example.headers, ...change.headers }),
      body: Buffer.from(change.body ?? example.body),
      nowMs: timeOf(example) + (change.laterMs ?? 0),
    },
    change.secrets ?? [example.secret],
  );
}

const ALL = Object.entries(EXAMPLES);
/** A token says nothing about the body. */
const SIGNED = ALL.filter(([name]) => name !== 'gitlab');
const TIMED = ALL.filter(([, { time }]) => time !== null);
const HEXADECIMAL = ALL.filter(([, { headers, proof }]) => HEX.test(headers[proof]!));
const PROOF_HEADERS = ALL.flatMap(([name, example]) =>
  [...new Set([example.proof, example.time ?? example.proof])].map((header) => [name, header, example] as const),
);
const OTHER_SECRET = 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA';

describe('the published example', () => {
  test.each(ALL)('of %s is verified, and its sender names the delivery', (_name, example) => {
    expect(verify(example)).toBeNull();
    const request = { headers: toHeaders(example.headers), body: Buffer.from(example.body), nowMs: timeOf(example) };
    expect(chooseScheme(example.verify).findSenderId(request)).toBe(example.senderId);
  });

  test.each(SIGNED)('of %s is refused with one changed byte of the body, wherever it is', (_name, example) => {
    const body = Buffer.from(example.body);
    for (let at = 0; at < body.length; at += 1) {
      const changed = Buffer.from(body);
      changed[at]! ^= 1;
      expect(verify(example, { body: changed }), `byte ${at}`).toBe('wrong');
    }
    expect(verify(example, { body: `${example.body}\n` })).toBe('wrong');
    expect(verify(example, { body: '' })).toBe('wrong');
  });

  test.each(ALL)('of %s is refused with one changed byte of the proof, wherever it is', (_name, example) => {
    const proof = example.headers[example.proof]!;
    // Bytes of another version are not read.
    const end = proof.includes(',v0=') ? proof.indexOf(',v0=') : proof.length;
    for (let at = 0; at < end; at += 1) {
      const changed = Buffer.from(proof, 'latin1');
      changed[at]! ^= 1;
      const headers = { [example.proof]: changed.toString('latin1') };
      expect(verify(example, { headers }), `byte ${at}: ${headers[example.proof]}`).not.toBeNull();
    }
    expect(verify(example, { headers: { [example.proof]: proof.slice(0, end - 1) } })).not.toBeNull();
    expect(verify(example, { headers: { [example.proof]: '' } })).not.toBeNull();
  });

  test.each(ALL)('of %s is refused with another secret, and accepted with either of two', (_name, example) => {
    expect(verify(example, { secrets: [OTHER_SECRET] })).toBe('wrong');
    expect(verify(example, { secrets: [OTHER_SECRET, example.secret] })).toBeNull();
    expect(verify(example, { secrets: [example.secret, OTHER_SECRET] })).toBeNull();
  });

  test.each(ALL)('of %s is refused with an empty secret, and accepted beside one', (_name, example) => {
    expect(verify(example, { secrets: [] })).toBe('no-secret');
    expect(verify(example, { secrets: [''] })).toBe('no-secret');
    expect(verify(example, { secrets: ['', example.secret] })).toBeNull();
  });

  test.each(ALL.filter(([name]) => name !== 'standard-webhooks'))(
    'of %s is refused if an empty secret makes its proof',
    (_name, example) => {
      const event = { body: Buffer.from(example.body), nowMs: timeOf(example), id: 'a' };
      const headers = chooseScheme(example.verify).sign(event, '')!;
      expect(verify(example, { headers, secrets: ['', OTHER_SECRET] })).toBe('wrong');
    },
  );

  test.each(PROOF_HEADERS)('of %s has the header %s once', (_name, header, example) => {
    const value = example.headers[header]!;
    expect(verify(example, { headers: { [header]: [] } })).toBe('missing');
    expect(verify(example, { headers: { [header]: [value, value] } })).toBe('repeated');
    expect(verify(example, { headers: { [header]: ['x', value] } })).toBe('repeated');
    // A server that joins them gives one text.
    expect(verify(example, { headers: { [header]: `${value}, ${value}` } })).not.toBeNull();
  });

  test.each(TIMED)('of %s is refused more than 5 minutes after its time, and before it', (_name, example) => {
    expect(verify(example, { laterMs: 5 * 60_000 })).toBeNull();
    expect(verify(example, { laterMs: 5 * 60_000 + 1 })).toBe('too-old');
    expect(verify(example, { laterMs: -5 * 60_000 })).toBeNull();
    expect(verify(example, { laterMs: -5 * 60_000 - 1 })).toBe('too-new');
  });

  test.each(TIMED)('of %s has its time in the proof, in digits only', (_name, example) => {
    const seconds = String(timeOf(example) / 1_000);
    const withTime = (text: string): Headers => ({
      [example.time!]: example.headers[example.time!]!.replace(seconds, text),
    });
    expect(verify(example, { headers: withTime(String(Number(seconds) + 1)) })).toBe('wrong');
    for (const text of ['', '-1', '1e9', ` ${seconds} `, `${seconds}.0`, '0x5', '9'.repeat(13), 'NaN'])
      expect(verify(example, { headers: withTime(text) }), text).not.toBeNull();
  });

  test.each(HEXADECIMAL)('of %s is the same in upper-case hexadecimal', (_name, example) => {
    const proof = example.headers[example.proof]!.replace(HEX, (hex) => hex.toUpperCase());
    expect(verify(example, { headers: { [example.proof]: proof } })).toBeNull();
  });

  test.each(SIGNED)('of %s is refused in another encoding', (_name, example) => {
    const proof = example.headers[example.proof]!;
    const [text] = /[0-9a-f]{40,}|[A-Za-z0-9+/]{40,}={0,2}/.exec(proof)!;
    const isHex = HEX.test(proof);
    const other = Buffer.from(text, isHex ? 'hex' : 'base64').toString(isHex ? 'base64' : 'hex');
    expect(verify(example, { headers: { [example.proof]: proof.replace(text, other) } })).toBe('malformed');
  });
});

test.each(ALL)('an event that %s signs is verified', (_name, example) => {
  const event = { body: Buffer.from('{"id":"1"}'), nowMs: timeOf(example), id: 'a-1' };
  const headers = chooseScheme(example.verify).sign(event, example.secret)!;
  expect(verify(example, { headers, body: event.body })).toBeNull();
});

test.each(SIGNED)('JSON with keys in another order has another signature of %s', (_name, example) => {
  const event = { body: Buffer.from('{"a":1,"b":2}'), nowMs: timeOf(example), id: 'x' };
  const headers = chooseScheme(example.verify).sign(event, example.secret)!;
  expect(verify(example, { headers, body: '{"a":1,"b":2}' })).toBeNull();
  expect(verify(example, { headers, body: '{"b":2,"a":1}' })).toBe('wrong');
});

test("GitHub's SHA-1 is no proof", () => {
  const headers = { 'x-hub-signature-256': [], 'x-hub-signature': 'sha1=0a4d55a8d778e5022fab701977c5d840bbc486d0' };
  expect(verify(EXAMPLES['github']!, { headers })).toBe('missing');
});

test('a trigger without a proof accepts every request', () => {
  expect(verify({ ...EXAMPLES['github']!, verify: { scheme: 'none' } }, { headers: {}, secrets: [] })).toBeNull();
});

describe('a header with several signatures', () => {
  const stripe = EXAMPLES['stripe']!;
  const standard = EXAMPLES['standard-webhooks']!;
  const stripeProof = stripe.headers['stripe-signature']!;
  const zeros = '0'.repeat(64);
  const v1 = standard.headers['webhook-signature']!;
  const other = `v1,${Buffer.alloc(32).toString('base64')}`;

  test.each([
    [null, `t=1533204620,v1=${zeros},${stripeProof.slice(13)}`],
    [null, stripeProof.replaceAll(',', ', ')],
    ['wrong', `t=1533204620,v1=${zeros},v1=${zeros}`],
    ['malformed', `t=1533204620,v0=${zeros}`],
    ['malformed', `${stripeProof},t=1533204620`],
    ['malformed', `${stripeProof},v1=x`],
    [null, `t=1533204620${`,v1=${zeros}`.repeat(MOST_SIGNATURES - 1)},${stripeProof.slice(13)}`],
    ['malformed', `t=1533204620${`,v1=${zeros}`.repeat(MOST_SIGNATURES)},${stripeProof.slice(13)}`],
  ])('by Stripe: %s for %s', (refusal, proof) => {
    expect(verify(stripe, { headers: { 'stripe-signature': proof } })).toBe(refusal);
  });

  test.each([
    [null, `${other} ${v1}`],
    [null, `v1a,${'A'.repeat(88)} ${v1} v2,x`],
    ['wrong', other],
    ['malformed', `v1a,${'A'.repeat(88)}`],
    ['malformed', `${v1} v1,x`],
    [null, `${`${other} `.repeat(MOST_SIGNATURES - 1)}${v1}`],
    ['malformed', `${`${other} `.repeat(MOST_SIGNATURES)}${v1}`],
  ])('by Standard Webhooks: %s for %s', (refusal, proof) => {
    expect(verify(standard, { headers: { 'webhook-signature': proof } })).toBe(refusal);
  });
});

describe('Standard Webhooks and the library of the standard', () => {
  const standard = EXAMPLES['standard-webhooks']!;

  test.each([
    ['empty', ''],
    ['of JSON', '{"ü":"😀"}'],
    ['of two lines', 'a\nb'],
    ['of many bytes', 'x'.repeat(10_000)],
  ])('agree about a body that is %s', (_name, body) => {
    const now = new Date(Math.floor(Date.now() / 1_000) * 1_000);
    const library = new Webhook(standard.secret);
    const headers = {
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(now.getTime() / 1_000),
      'webhook-signature': library.sign('msg_1', now, body),
    };
    expect(verify(standard, { headers, body, laterMs: now.getTime() - timeOf(standard) })).toBeNull();
    const event = { body: Buffer.from(body), nowMs: now.getTime(), id: 'msg_1' };
    const signed = chooseScheme(standard.verify).sign(event, standard.secret)!;
    expect(signed).toEqual(headers);
  });

  test('agree about what the scheme signs', () => {
    const nowMs = Date.now();
    const event = { body: Buffer.from('{"ü":1}'), nowMs, id: 'msg_1' };
    const signed = chooseScheme(standard.verify).sign(event, standard.secret)!;
    expect(new Webhook(standard.secret).verify('{"ü":1}', { ...signed })).toEqual({ ü: 1 });
  });

  test('an id with a full stop is refused, because a part of it could pass for a time', () => {
    const { headers, body } = standard;
    // The same signed text, cut at another full stop.
    const cut = { 'webhook-id': `${headers['webhook-id']}.1614265330`, 'webhook-timestamp': '1614265330' };
    expect(verify(standard, { headers: cut, body })).toBe('malformed');
  });

  test.each(['whsec_', 'whsec_!', 'whsec_A', 'not base64 at all'])('the secret %j proves nothing', (secret) => {
    expect(verify(standard, { secrets: [secret] })).toBe('no-secret');
  });
});

test('a body names its delivery only with a text that is an id', () => {
  const { stripe } = EXAMPLES;
  const find = (body: string): string | null =>
    chooseScheme(stripe!.verify).findSenderId({ headers: new Map(), body: Buffer.from(body), nowMs: 0 });
  expect(find('{"id":"evt_1"}')).toBe('evt_1');
  for (const body of ['', '[]', 'null', '{"id":1}', '{"id":""}', '{"id":"a b"}', '{"id":"ü"}', '[['.repeat(500_000)])
    expect(find(body)).toBeNull();
  expect(find(`{"id":"${'a'.repeat(256)}"}`)).toBe('a'.repeat(256));
  expect(find(`{"id":"${'a'.repeat(257)}"}`)).toBeNull();
});
