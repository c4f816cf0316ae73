import { expect, test } from 'vitest';
import { QUEUE_LIMITS } from '../../../delivery/queue-source.ts';
import { listTriggerSecrets, type Trigger } from '../../../delivery/trigger.ts';
import { checkExpressions } from '../../expression/check.ts';
import { type CompiledText, compileText } from '../../load.ts';

const NATS = { servers: 'tls://nats.example', stream: 'ORDERS', consumer: 'voidbox' };

function compile(nats: object): CompiledText {
  const on = [{ name: 'a', queue: { nats: { ...NATS, ...nats } } }];
  const spec = { kind: 'workflow', name: 'x', on, workflow: { steps: [{ name: 'b', run: 'true' }] } };
  return compileText(JSON.stringify(spec), 'x.json', { baseDir: '/', checkExpression: checkExpressions });
}

function sourceOf(nats: object): Trigger['source'] | undefined {
  const { triggers, diagnostics } = compile(nats);
  expect(diagnostics).toEqual([]);
  return triggers[0]?.source;
}

const messagesOf = (nats: object): readonly string[] => {
  const { triggers, diagnostics } = compile(nats);
  expect(triggers).toEqual([]);
  return diagnostics.map(({ message }) => message);
};

test('absent keys have their defaults', () => {
  expect(sourceOf({})).toEqual({
    kind: 'queue',
    nats: {
      servers: ['tls://nats.example:4222'],
      stream: 'ORDERS',
      consumer: 'voidbox',
      subject: null,
      start: 'all',
      maxDeliver: 10,
      login: null,
      tlsCa: null,
    },
  });
});

test.each([
  [{ token: 'T' }, { kind: 'token', token: 'T' }, ['T']],
  [{ user: 'u', password: 'P' }, { kind: 'user', user: 'u', password: 'P' }, ['P']],
  [{ creds: 'C', tls_ca: 'A' }, { kind: 'creds', creds: 'C' }, ['A', 'C']],
])('a login names its secrets: %j', (keys, login, secrets) => {
  const { triggers } = compile(keys);
  expect(triggers[0]?.source).toMatchObject({ nats: { login } });
  expect(listTriggerSecrets(triggers)).toEqual(secrets);
});

test.each(['a', 'a.b', 'a.*.b', 'a.>', '>', '*', 'a-b_c.$X', 'ä', 'x'.repeat(QUEUE_LIMITS.subjectCharacters)])(
  '%s is a subject',
  (subject) => {
    expect(sourceOf({ subject })).toMatchObject({ nats: { subject } });
  },
);

test.each([
  'a..b',
  '.a',
  'a.',
  'a b',
  '>.a',
  'a.>.b',
  'a*',
  'a>',
  'a\tb',
  'x'.repeat(QUEUE_LIMITS.subjectCharacters + 1),
])('%j is not a subject', (subject) => {
  expect(messagesOf({ subject })).toEqual([expect.stringContaining('which is not a subject of NATS')]);
});

test.each(['stream', 'consumer'])('the name of a %s has a length and characters', (key) => {
  expect(sourceOf({ [key]: 'x'.repeat(QUEUE_LIMITS.nameCharacters) })).toBeDefined();
  for (const name of ['x'.repeat(QUEUE_LIMITS.nameCharacters + 1), 'a.b', 'a b', 'a*', '>', 'a/b', 'a\\b', 'ä'])
    expect(messagesOf({ [key]: name })).toEqual([expect.stringContaining(`\`${key}\` of trigger "a" is `)]);
});

test('a queue has a limit of servers', () => {
  const listOf = (count: number): readonly string[] => Array.from({ length: count }, (_, at) => `tls://s${at}.example`);
  expect(sourceOf({ servers: listOf(QUEUE_LIMITS.servers) })).toBeDefined();
  expect(messagesOf({ servers: listOf(QUEUE_LIMITS.servers + 1) })).toEqual([
    '`servers` of trigger "a" has 17 addresses; at most 16 are allowed',
  ]);
});

test('an address of another form is refused, and its password is in no message', () => {
  const [message, ...others] = messagesOf({ servers: 'nats://user:hunter2@nats.example' });
  expect([message, others]).toEqual([
    '`servers` of trigger "a" has "nats://…@nats.example", which is not the address of a server',
    [],
  ]);
});

test('servers have one scheme', () => {
  expect(messagesOf({ servers: ['tls://a.example', 'nats://b.example'] })).toEqual([
    '`servers` of trigger "a" has addresses with tls:// and with nats://',
  ]);
});

test('a user has a length, no control characters and a password', () => {
  const password = 'P';
  expect(sourceOf({ user: 'x'.repeat(QUEUE_LIMITS.userCharacters), password })).toBeDefined();
  for (const user of ['x'.repeat(QUEUE_LIMITS.userCharacters + 1), 'a\u0007'])
    expect(messagesOf({ user, password })).toEqual([expect.stringContaining('`user` of trigger "a" is ')]);
  expect(messagesOf({ user: 'u' })).toEqual(['`nats` of trigger "a" has `user` without `password`']);
});

test.each([
  [{ token: 'T' }, 'token'],
  [{ user: 'u', password: 'P' }, 'password'],
])('a secret does not pass the network without TLS: %j', (login, what) => {
  expect(messagesOf({ servers: ['nats://localhost', 'nats://nats.example'], ...login })).toEqual([
    `the ${what} of trigger "a" would pass the network to nats.example:4222 without TLS`,
  ]);
  expect(sourceOf({ servers: ['nats://localhost', 'nats://[::1]', 'nats://127.0.0.1'], ...login })).toBeDefined();
});

test('a file of credentials may be used without TLS, and an authority may not', () => {
  expect(sourceOf({ servers: 'nats://nats.example', creds: 'C' })).toBeDefined();
  expect(messagesOf({ servers: 'nats://nats.example', tls_ca: 'A' })).toEqual([
    '`tls_ca` of trigger "a" has no effect with nats://nats.example:4222, which does not require TLS',
  ]);
});
