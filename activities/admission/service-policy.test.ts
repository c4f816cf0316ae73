import { expect, test } from 'vitest';
import { readAllowedService } from '../../domain/language/read/egress-rules.ts';
import { confirmServices, refuseServices } from './service-policy.ts';

const ANY = { kind: 'any' } as const;

const scopes = (...services: readonly (readonly [string, number])[]) => [
  {
    id: 'a',
    sandbox: { egress: { allow: [], deny: [], services: services.map(([host, port]) => ({ name: 's', host, port })) } },
  },
];

test('a worker allows only the services that it was started with; the default is no services', () => {
  expect(() => refuseServices(scopes(['127.0.0.1', 7233]), undefined, ANY)).toThrow(
    'the service s (127.0.0.1:7233) of scope a is refused: this worker allows no services',
  );
  const policy = ['127.0.0.1:5432', '[::1]:5432'];
  expect(() => refuseServices(scopes(['127.0.0.1', 5432], ['::1', 5432]), policy, ANY)).not.toThrow();
  for (const other of [
    ['127.0.0.1', 5433],
    ['localhost', 5432],
    ['127.0.0.1', 543],
  ] as const)
    expect(() => refuseServices(scopes(other), policy, ANY)).toThrow(
      /this worker allows 127\.0\.0\.1:5432, \[::1\]:5432$/,
    );
});

test.each([
  ['LocalHost:5432', 'localhost'],
  ['db.internal.:5432', 'db.internal'],
  ['[::1]:5432', '::1'],
])('an operator may write %s as a spec may', (text, host) => {
  expect(() => refuseServices(scopes([host, 5432]), [readAllowedService(text)!], ANY)).not.toThrow();
});

test('the embedded stack allows the services of a spec, and a VM without egress needs no permission', () => {
  expect(() => refuseServices(scopes(['127.0.0.1', 1]), 'any', ANY)).not.toThrow();
  expect(() => refuseServices([{ id: 'a', sandbox: {} }], undefined, ANY)).not.toThrow();
});

test('a run of a token reaches no service of the host, unless the worker names it', () => {
  const token = { kind: 'token', name: 'ci', baseDir: '/uploads', allowGit: [] } as const;
  expect(() => refuseServices(scopes(['127.0.0.1', 5432]), 'any', token)).toThrow(
    'the service s (127.0.0.1:5432) of scope a is refused: the service allows the runs of a token no services',
  );
  expect(() => refuseServices(scopes(['127.0.0.1', 5432]), ['127.0.0.1:5432'], token)).not.toThrow();
});

test('before a launch, a starter is looked up only for a VM with services, and these are refused again', async () => {
  const asked: string[] = [];
  const starterOf = async (runId: string) => {
    asked.push(runId);
    return { kind: 'any' } as const;
  };
  const deps = { starters: { starterOf }, servicePolicy: [] };
  await confirmServices(deps, 'without', { id: 'a', sandbox: {} });
  await expect(confirmServices(deps, 'with', scopes(['127.0.0.1', 5432])[0]!)).rejects.toThrow('127.0.0.1:5432');
  expect(asked).toEqual(['with']);
});
