import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { API_RULES, type Trigger, type TriggerSource } from '../../domain/delivery/trigger.ts';
import { makeNats } from '../../test/conformance/queues.ts';
import { refuseSources } from './refuse-sources.ts';

let dir: string;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-refuse-sources-')));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  mkdirSync(join(dir, 'allowed', 'in'), { recursive: true });
  mkdirSync(join(dir, 'other'));
  writeFileSync(join(dir, 'allowed', 'file'), '');
  symlinkSync(join(dir, 'other'), join(dir, 'allowed', 'out'));
  symlinkSync(join(dir, 'allowed', 'in'), join(dir, 'link'));
});

function watch(path: string): Trigger {
  const source: TriggerSource = { kind: 'folder', path, match: '*', existing: 'skip', everyMs: 10_000 };
  return { ...API_RULES, name: 'files', source };
}

function refuse(trigger: Trigger, outbox: readonly string[] = []): void {
  refuseSources([API_RULES, trigger], () => ({ watch: [join(dir, 'allowed')], outbox, queue: ['nats.example:4222'] }));
}

test('a trigger may watch an allowed folder and those below it, also by a link that leads there', () => {
  for (const path of ['allowed', 'allowed/in', 'link']) expect(() => refuse(watch(join(dir, path)))).not.toThrow();
});

test.each(['other', 'allowed/out', 'absent', 'allowed/../other', 'allowedness'])(
  'a trigger that watches %s is refused by its name, with the way to allow it',
  (path) => {
    expect(() => refuse(watch(join(dir, path)))).toThrow(
      expect.objectContaining({
        code: 'deploy/source-not-allowed',
        message: expect.stringMatching(/^the trigger files watches .* in no folder that the operator/) as string,
        remedy: expect.stringContaining('voidbox up --allow-watch') as string,
      }) as Error,
    );
  },
);

test.each(['allowed/file', 'allowed/absent'])(
  'a trigger that watches %s is refused, because it is not a folder',
  (path) => {
    expect(() => refuse(watch(join(dir, path)))).toThrow(/which is not a folder/);
  },
);

test('a trigger with a queue needs an allowance of each server and its port', () => {
  const read = (...servers: readonly string[]): Trigger => ({
    ...API_RULES,
    name: 'orders',
    source: { kind: 'queue', nats: { ...makeNats(''), servers } },
  });
  expect(() => refuse(read('tls://nats.example:4222'))).not.toThrow();
  for (const refused of ['nats.example:4223', 'other.example:4222'])
    expect(() => refuse(read('tls://nats.example:4222', `tls://${refused}`))).toThrow(
      expect.objectContaining({
        code: 'deploy/source-not-allowed',
        message: `the trigger orders reads a queue of ${refused}, which the operator of the service has not allowed`,
        remedy: `The operator allows it on the machine of the service: voidbox up --allow-queue ${refused}`,
      }) as Error,
    );
});

test('a trigger with an outbox needs an allowed database', () => {
  const source: TriggerSource = { kind: 'outbox', secret: 'DB_URL', table: 'a', ca: null, everyMs: 10_000 };
  const trigger = { ...API_RULES, name: 'rows', source };
  expect(() => refuse(trigger)).toThrow(/the trigger rows reads an outbox/);
  expect(() => refuse(trigger, ['db.example:5432'])).not.toThrow();
});
