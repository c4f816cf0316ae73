import { Buffer } from 'node:buffer';
import { expect, test } from 'vitest';
import { CodedError } from '../domain/errors/coded-error.ts';
import { ConnectionError } from '../native/index.ts';
import { Sandbox } from './index.ts';
import { checkLaunchOptions, type LaunchOptions } from './launch-options.ts';
import { type NetworkEvent, networkEvents } from './network.ts';

const NEVER = new AbortController().signal;

test('egress and services of a VM use the syntax of specs', () => {
  const of = (options: LaunchOptions) => checkLaunchOptions(options).spec;
  expect(of({}).egress).toBeUndefined();
  expect(of({ egress: 'none', services: {} }).egress).toBeUndefined();
  expect(of({ egress: {} }).egress).toBeUndefined();
  expect(of({ egress: 'open' }).egress).toEqual({ allow: 'any', deny: [], services: [] });
  const egress = { allow: ['npm', '*.example.com', '[2606:4700::/32]:53'], deny: ['ads.example.com'] };
  expect(of({ egress, services: { db: '127.0.0.1:5432' } }).egress).toEqual({
    allow: [
      { kind: 'host', name: 'registry.npmjs.org', ports: [80, 443] },
      { kind: 'subdomains', name: 'example.com', ports: [80, 443] },
      { kind: 'network', cidr: '2606:4700::/32', ports: [53] },
    ],
    deny: [{ kind: 'host', name: 'ads.example.com', ports: 'any' }],
    services: [{ name: 'db', host: '127.0.0.1', port: 5432 }],
  });
  expect(of({ image: 'dev' }).image).toEqual({ kind: 'dev' });
  expect(of({ image: 'base' }).image).toBeUndefined();
});

test('errors about wrong values name the option, the value and the allowed values', () => {
  const wrong = (options: object): string => {
    try {
      checkLaunchOptions(options as LaunchOptions);
      return 'taken';
    } catch (error) {
      return (error as Error).message;
    }
  };
  expect(wrong({ egress: 'closed' })).toMatch(/^egress is "closed", expected 'none', 'open' or/);
  expect(wrong({ egress: { alow: [] } })).toMatch(/have no "alow"; did you mean "allow"/);
  expect(wrong({ egress: { allow: 'npm' } })).toMatch(/^egress\.allow is "npm", expected a list/);
  expect(wrong({ egress: { allow: ['npm', 'https://x.example/'] } })).toMatch(/^egress\.allow\[1\] is "https:/);
  for (const entry of ['127.0.0.1:5432', 'localhost', '10.0.0.0/8', '[fd00::]/8:80'])
    expect(wrong({ egress: { allow: [entry] } })).toMatch(/^egress\.allow\[0\] is .*only `services` can reach it/);
  expect(wrong({ egress: { allow: ['[::]/0:80'], deny: ['127.0.0.1'] } })).toBe('taken');
  expect(wrong({ egress: { deny: [7] } })).toMatch(/^egress\.deny\[0\] is 7/);
  expect(wrong({ egress: { allow: ['provider'] } })).toMatch(/^egress\.allow\[0\] is "provider"/);
  const many = Array.from({ length: 257 }, (_, index) => `h${index}.example`);
  expect(wrong({ egress: { allow: many } })).toBe('egress.allow is "257 rules", expected at most 256');
  expect(wrong({ services: { 'a b': 'x:1' } })).toMatch(/^services is "a b"/);
  expect(wrong({ services: { localhost: 'x:1' } })).toMatch(/^services is "localhost"/);
  expect(wrong({ services: { db: '127.0.0.1' } })).toMatch(
    /^services\.db is "127\.0\.0\.1", expected a host with a port/,
  );
  expect(wrong({ services: Object.fromEntries(many.map((_, index) => [`s${index}`, 'x:1'])) })).toMatch(/at most 32$/);
  expect(wrong({ image: 'alpine' })).toBe('image is "alpine", expected one of base, dev');
});

const LINES = Buffer.from(
  ['a', 'é', 'c']
    .map((host) => `${JSON.stringify({ kind: 'refused', atMs: 1, host, port: 1, cause: 'rules', reason: '' })}\n`)
    .join(''),
);

async function hostsOf(events: AsyncIterable<NetworkEvent>): Promise<unknown[]> {
  const hosts: unknown[] = [];
  for await (const event of events) hosts.push('host' in event ? event.host : event.kind);
  return hosts;
}

test('a stream that breaks off in the middle of a line continues after the last whole line', async () => {
  const offsets: number[] = [];
  let renewals = 0;
  const source = {
    async *notices(offset: number) {
      offsets.push(offset);
      const end = offsets.length === 1 ? LINES.length / 2 : LINES.length;
      for (let at = offset; at < end; at += 5) yield LINES.subarray(at, Math.min(at + 5, end));
      if (offsets.length === 1) throw new ConnectionError('broken');
    },
    renew: async () => {
      renewals += 1;
      if (renewals > 1) throw new CodedError('vm/lost', 'gone');
    },
    hasLetGo: () => false,
  };
  expect(await hostsOf(networkEvents(source, NEVER))).toEqual(['a', 'é', 'c']);
  expect(offsets).toHaveLength(2);
  expect(LINES[offsets[1]! - 1]).toBe(0x0a);
});

async function* broken(): AsyncGenerator<Uint8Array> {
  yield LINES.subarray(0, 3);
  throw new CodedError('fence/stale', 'taken');
}

test('a new owner is an error, and letting go ends the events', async () => {
  let isLetGo = false;
  const source = {
    notices: () => broken(),
    renew: async () => undefined,
    hasLetGo: () => isLetGo,
  };
  await expect(hostsOf(networkEvents(source, NEVER))).rejects.toMatchObject({ code: 'fence/stale' });
  isLetGo = true;
  expect(await hostsOf(networkEvents(source, NEVER))).toEqual([]);
});

test('the events of a mock end with it, and with the signal', async () => {
  const vm = await Sandbox.launch({ mode: 'mock', egress: 'open' });
  const abort = new AbortController();
  const cut = hostsOf(vm.network({ signal: abort.signal }));
  abort.abort(new Error('enough'));
  await expect(cut).rejects.toThrow('enough');
  const events = hostsOf(vm.network());
  await vm.stop();
  expect(await events).toEqual([]);
});
