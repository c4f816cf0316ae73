import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { makeStateFolder } from '../../test/rig/runs/state-folder.ts';
import { SetupError } from '../../setup/setup-error.ts';
import {
  findListenProblem,
  keepListenRecord,
  type ListenRecord,
  parsePublicUrl,
  readListenRecord,
  removeListenRecord,
} from './listen-file.ts';

const LOCAL: ListenRecord = {
  listen: [{ host: '127.0.0.1', port: 8080 }],
  publicUrl: null,
  tls: null,
  behindProxy: false,
  specRoot: null,
};
const FAR: ListenRecord = {
  listen: [
    { host: '0.0.0.0', port: 443 },
    { host: '::1', port: 0 },
  ],
  publicUrl: 'https://api.example',
  tls: { cert: '/etc/cert.pem', key: '/etc/key.pem' },
  behindProxy: true,
  specRoot: '/srv/specs',
};

let stateDir: string;
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-listen-file-'));
  onTestFinished(() => rmSync(stateDir, { recursive: true }));
});

test('a record replaces the earlier one, and its file is private', () => {
  expect(readListenRecord(stateDir)).toBeNull();
  keepListenRecord(stateDir, LOCAL);
  expect(readListenRecord(stateDir)).toEqual(LOCAL);
  keepListenRecord(stateDir, FAR);
  expect(readListenRecord(stateDir)).toEqual(FAR);
  expect(statSync(join(stateDir, 'listen.json')).mode & 0o777).toBe(0o600);
  removeListenRecord(stateDir);
  removeListenRecord(stateDir);
  expect(readListenRecord(stateDir)).toBeNull();
});

function changeFile(change: object): string {
  keepListenRecord(makeStateFolder(stateDir), FAR);
  const value = JSON.parse(readFileSync(join(stateDir, 'listen.json'), 'utf8')) as object;
  return JSON.stringify({ ...value, ...change });
}

test.each<[string, () => string]>([
  ['nothing', () => ''],
  ['a part of an object', () => '{'],
  ['null', () => 'null'],
  ['a list', () => '[]'],
  ['no addresses', () => changeFile({ listen: [] })],
  ['9 addresses', () => changeFile({ listen: Array.from({ length: 9 }, () => LOCAL.listen[0]) })],
  ['an address as a text', () => changeFile({ listen: ['127.0.0.1:8080'] })],
  ['a name as an address', () => changeFile({ listen: [{ host: 'localhost', port: 8080 }] })],
  ['a long form of an address', () => changeFile({ listen: [{ host: '0:0:0:0:0:0:0:1', port: 8080 }] })],
  ['a port that is a text', () => changeFile({ listen: [{ host: '127.0.0.1', port: '8080' }] })],
  ['a port that no machine has', () => changeFile({ listen: [{ host: '127.0.0.1', port: 65_536 }] })],
  ['a half of a port', () => changeFile({ listen: [{ host: '127.0.0.1', port: 80.5 }] })],
  ['no settings', () => JSON.stringify({ listen: LOCAL.listen })],
  ['a relative path', () => changeFile({ tlsCert: 'cert.pem' })],
  ['a certificate without its key', () => changeFile({ tlsKey: null })],
  ['a proxy that is a text', () => changeFile({ behindProxy: 'yes' })],
  ['a relative folder of specs', () => changeFile({ specRoot: 'specs' })],
  ['a URL with a path', () => changeFile({ publicUrl: 'https://api.example/x' })],
  ['an address beyond this machine without TLS', () => changeFile({ tlsCert: null, tlsKey: null, behindProxy: false })],
])('a file that holds %s opens no listener: it is an error with the way out', (_what, write) => {
  writeFileSync(join(makeStateFolder(stateDir), 'listen.json'), write());
  const read = (): unknown => readListenRecord(stateDir);
  expect(read).toThrow(SetupError);
  expect(read).toThrow(/listen\.json, the addresses on which the API listens, cannot be used: /);
  keepListenRecord(stateDir, LOCAL);
  expect(read()).toEqual(LOCAL);
});

test.each<[string, Partial<ListenRecord>, string]>([
  ['an address beyond this machine', { listen: FAR.listen }, '0.0.0.0:443 is beyond this machine'],
  ['a URL without TLS for a listener with it', { tls: FAR.tls, publicUrl: 'http://a.example' }, 'without TLS'],
  ['a text that is no URL', { publicUrl: 'api.example' }, 'is not the URL of a server'],
])('%s is a problem with a remedy', (_what, change, message) => {
  const problem = findListenProblem({ ...LOCAL, ...change });
  expect(problem?.message).toContain(message);
  expect(problem?.remedy).toMatch(/^Give /);
});

test('an address beyond this machine needs TLS or a proxy', () => {
  expect(findListenProblem(LOCAL)).toBeNull();
  expect(findListenProblem({ ...LOCAL, listen: FAR.listen, tls: FAR.tls })).toBeNull();
  expect(findListenProblem({ ...LOCAL, listen: FAR.listen, behindProxy: true })).toBeNull();
  expect(
    findListenProblem({
      ...LOCAL,
      listen: [
        { host: '127.0.0.9', port: 1 },
        { host: '::1', port: 1 },
      ],
    }),
  ).toBeNull();
});

test.each([
  ['https://api.example', 'https://api.example'],
  ['https://API.example/', 'https://api.example'],
  ['https://api.example:443', 'https://api.example'],
  ['http://192.0.2.7:8080', 'http://192.0.2.7:8080'],
  ['https://[2001:db8::7]:8443', 'https://[2001:db8::7]:8443'],
  ['https://api.example/voidbox', null],
  ['https://api.example/?a', null],
  ['https://api.example/#a', null],
  ['https://user@api.example', null],
  ['ftp://api.example', null],
  ['api.example', null],
  ['', null],
  [`https://${'a.'.repeat(130)}example`, null],
])('the public URL %j is %j', (text, origin) => {
  expect(parsePublicUrl(text)).toBe(origin);
});
