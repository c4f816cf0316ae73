import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { AppError } from '../../app/app-error.ts';
import type { TlsFiles } from '../../client/embedded/api-messages.ts';
import { copyPair } from '../../test/rig/tls/pairs.ts';
import { type ListenOptions, parseListenOptions } from './listen-options.ts';

const NOW_MS = Date.parse('2030-01-01');

let dir: string;
let files: TlsFiles;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-listen-options-')));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  files = copyPair('first', dir);
  mkdirSync(join(dir, 'specs'));
  symlinkSync('cert.pem', join(dir, 'link.pem'));
});

const parse = (options: ListenOptions, nowMs = NOW_MS) => parseListenOptions(options, dir, nowMs);

test('no option changes nothing, and --no-listen removes the record', () => {
  expect(parse({})).toBeNull();
  expect(parse({ listen: false })).toEqual({ record: null, warnings: [] });
});

test('only an address is a record without TLS', () => {
  expect(parse({ listen: ['localhost:8080', '127.0.0.1:8080', '[::1]:0'] })?.record).toEqual({
    listen: [
      { host: '127.0.0.1', port: 8080 },
      { host: '::1', port: 0 },
    ],
    publicUrl: null,
    tls: null,
    behindProxy: false,
    specRoot: null,
  });
});

test('all options are in the record, with absolute paths and links of the certificate as they are', () => {
  const options = { publicUrl: 'https://API.example/', behindProxy: true, specRoot: 'specs' };
  const change = parse({ listen: ['0.0.0.0:443'], tlsCert: 'link.pem', tlsKey: 'key.pem', ...options });
  expect(change).toEqual({
    record: {
      listen: [{ host: '0.0.0.0', port: 443 }],
      publicUrl: 'https://api.example',
      tls: { cert: join(dir, 'link.pem'), key: files.key },
      behindProxy: true,
      specRoot: join(dir, 'specs'),
    },
    warnings: [],
  });
});

test('a certificate that has expired is a warning', () => {
  const change = parse({ listen: ['127.0.0.1:1'], tlsCert: 'cert.pem', tlsKey: 'key.pem' }, Date.parse('2130-01-01'));
  expect(change?.warnings).toEqual([expect.stringContaining('has expired')]);
});

test.each<[string, ListenOptions, RegExp]>([
  ['an address beyond this machine', { listen: ['0.0.0.0:80'] }, /0\.0\.0\.0:80 is beyond this machine.*TLS/],
  ['a second address beyond this machine', { listen: ['127.0.0.1:80', '[::]:80'] }, /\[::\]:80 is beyond/],
  ['a name as its address', { listen: ['api.example:80'] }, /`api\.example:80` is not an address with a port/],
  ['a port without an address', { listen: ['8080'] }, /`8080` is not an address/],
  ['9 addresses', { listen: [1, 2, 3, 4, 5, 6, 7, 8, 9].map((port) => `127.0.0.1:${port}`) }, /more than 8/],
  ['a URL with a path', { listen: ['127.0.0.1:80'], publicUrl: 'https://a.example/x' }, /is not the URL of a server/],
  ['a certificate without a key', { listen: ['127.0.0.1:80'], tlsCert: 'cert.pem' }, /--tls-cert needs --tls-key/],
  ['a key without a certificate', { listen: ['127.0.0.1:80'], tlsKey: 'key.pem' }, /--tls-key needs --tls-cert/],
  ['a missing file', { listen: ['127.0.0.1:80'], tlsCert: 'gone.pem', tlsKey: 'key.pem' }, /ENOENT.*gone\.pem/],
  ['a missing folder', { listen: ['127.0.0.1:80'], specRoot: 'gone' }, /`gone` is not a folder/],
  ['a file as its folder', { listen: ['127.0.0.1:80'], specRoot: 'key.pem' }, /`key\.pem` is not a folder/],
  ['a URL only', { publicUrl: 'https://a.example' }, /--public-url changes only how --listen/],
  ['a certificate only', { tlsCert: 'cert.pem', tlsKey: 'key.pem' }, /--tls-cert changes only/],
  ['a key only', { tlsKey: 'key.pem' }, /--tls-key changes only/],
  ['a proxy only', { behindProxy: true }, /--behind-proxy changes only/],
  ['a folder with --no-listen', { listen: false, specRoot: 'specs' }, /--spec-root changes only/],
])('%s is an error of usage with a remedy', (_what, options, message) => {
  const run = (): unknown => parse(options);
  expect(run).toThrow(message);
  expect(run).toThrow(
    expect.objectContaining({ fault: 'usage', code: 'cli/usage', remedy: expect.any(String) as string }) as AppError,
  );
});

test('a key that other users can read is refused', () => {
  chmodSync(files.key, 0o644);
  expect(() => parse({ listen: ['127.0.0.1:80'], tlsCert: 'cert.pem', tlsKey: 'key.pem' })).toThrow(/mode 644/);
});
