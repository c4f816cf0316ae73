import { expect, test } from 'vitest';
import { isAllowedHost, type OutboxAddress, parseOutboxAddress } from './outbox-address.ts';

const parse = (text: string): OutboxAddress => {
  const address = parseOutboxAddress(text);
  if (typeof address === 'string') throw new Error(address);
  return address;
};

test('an address has its parts, decoded, and TLS unless it is of this machine', () => {
  expect(parse('postgres://app:p%40ss%2Fword@DB.example/orders\n')).toEqual({
    host: { host: 'db.example', port: 5432 },
    user: 'app',
    password: 'p@ss/word',
    database: 'orders',
    isTls: true,
  });
  expect(parse('postgresql://app:x@[::1]:6543/a')).toMatchObject({
    host: { host: '::1', port: 6543 },
    isTls: false,
    password: 'x',
  });
  expect(parse('postgres://app:x@localhost:80/a')).toMatchObject({ host: { port: 80 }, isTls: false });
});

test.each([
  ['sslmode=disable', false],
  ['sslmode=require', true],
  ['sslmode=verify-full', true],
])('the mode decides about TLS: %s', (mode, isTls) => {
  expect(parse(`postgres://app:x@db/a?${mode}`).isTls).toBe(isTls);
});

test.each([
  'mysql://app:hunter2@db/a',
  '/var/run/postgresql',
  'postgres:///a?host=/var/run/postgresql',
  'postgres://app:hunter2@%2Fvar%2Frun/a',
  'postgres://app:hunter2@db/a?host=other',
  'postgres://app:hunter2@db/a?sslrootcert=/etc/passwd',
  'postgres://app:hunter2@db/a?sslkey=/etc/hunter2',
  'postgres://app:hunter2@db/a?options=-c%20a',
  'postgres://app:hunter2@db/a?sslmode=prefer',
  'postgres://app:hunter2@db/a?sslmode=disable&sslmode=require',
  'postgres://:hunter2@db/a',
  'postgres://app@db/a',
  'postgres://app:hunter2@db',
  'postgres://app:hunter2@db/a/b',
  'postgres://app:hun%ter2@db/a',
  'postgres://app:hunter2@db:0/a',
  `postgres://app:hunter2@db/${'a'.repeat(4_096)}`,
])('another address is refused, and the reason has no part of it: %s', (text) => {
  const problem = parseOutboxAddress(text);
  expect(problem).toEqual(expect.any(String));
  for (const part of ['hunter2', 'app:', '@db', '/var', '/etc']) expect(problem).not.toContain(part);
});

test('a server is allowed by its host and its port', () => {
  const address = parse('postgres://app:x@DB.example:6543/a');
  expect(isAllowedHost(address, ['db.example:6543'])).toBe(true);
  expect(isAllowedHost(address, ['db.example:5432', 'example:6543'])).toBe(false);
});
