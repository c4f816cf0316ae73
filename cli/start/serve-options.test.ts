import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { AppError } from '../../app/app-error.ts';
import { copyPair } from '../../test/rig/tls/pairs.ts';
import { parseServeOptions, type ServeOptions } from './serve-options.ts';

const NOW_MS = Date.parse('2030-01-01');
const SOCKET = '/run/user/1000/voidbox.sock';

let dir: string;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-serve-options-')));
  onTestFinished(() => rmSync(dir, { recursive: true }));
});

const parse = (options: ServeOptions, defaultSocket = SOCKET) =>
  parseServeOptions(options, { cwd: dir, nowMs: NOW_MS, defaultSocket });

function refuse(options: ServeOptions, defaultSocket = SOCKET): AppError {
  try {
    parse(options, defaultSocket);
  } catch (error) {
    return error as AppError;
  }
  throw new Error('the options were accepted');
}

test('without an address, the service is where clients of Void-Box look', () => {
  expect(parse({})).toEqual({
    place: {
      sockets: [SOCKET],
      listen: [],
      publicUrl: null,
      tls: null,
      behindProxy: false,
      specRoot: null,
    },
    warnings: [],
  });
});

test('addresses of both kinds are opened once each, in every form', () => {
  const listen = ['unix:a.sock', `unix://${dir}/a.sock`, 'tcp://localhost:80', '127.0.0.1:80', '[::1]:0'];
  expect(parse({ listen }).place).toMatchObject({
    sockets: [join(dir, 'a.sock')],
    listen: [
      { host: '127.0.0.1', port: 80 },
      { host: '::1', port: 0 },
    ],
  });
});

test('addresses over TCP have the options of `up`', () => {
  copyPair('first', dir);
  mkdirSync(join(dir, 'specs'));
  const tls = { tlsCert: 'cert.pem', tlsKey: 'key.pem' };
  const { place } = parse({ listen: ['0.0.0.0:443'], publicUrl: 'https://API.example/', specRoot: 'specs', ...tls });
  expect(place).toMatchObject({
    sockets: [],
    publicUrl: 'https://api.example',
    tls: { cert: join(dir, 'cert.pem'), key: join(dir, 'key.pem') },
    specRoot: join(dir, 'specs'),
  });
});

test.each([
  [{ listen: ['0.0.0.0:80'] }, 'beyond this machine', '--behind-proxy'],
  [{ listen: ['tcp://build.example:80'] }, 'is not an address with a port', '--public-url'],
  [{ listen: ['unix:'] }, 'names no socket', 'unix:/run'],
  [{ listen: ['unix:a.sock'], publicUrl: 'https://api.example' }, '--public-url changes only', '--listen HOST:PORT'],
  [{ tlsCert: 'cert.pem' }, '--tls-cert changes only', '--listen HOST:PORT'],
  [{ listen: ['127.0.0.1:80'], tlsCert: 'cert.pem', tlsKey: 'key.pem' }, 'cannot be used', 'chmod 600'],
  [{ listen: [`unix:${'a'.repeat(200)}`] }, 'at most 107', 'unix:/run'],
  [{ listen: ['unix:a\u001B[2J/'] }, 'names no socket', 'unix:/run'],
])('%j is refused', (options, message, remedy) => {
  const error = refuse(options);
  expect([error.fault, error.message]).toEqual(['usage', expect.stringContaining(message)]);
  expect(error.remedy).toContain(remedy);
  expect(error.message).not.toContain('\u001B');
});

test('a default socket that no address can have is refused, with another path as the remedy', () => {
  expect(refuse({}, `/${'a'.repeat(107)}`).remedy).toContain('--listen unix:PATH');
});

test('a service has at most eight addresses', () => {
  const listen = [...Array(7).keys()].map((port) => `127.0.0.1:${port + 1}`);
  expect(parse({ listen: [...listen, 'unix:a'] }).place.sockets).toHaveLength(1);
  expect(refuse({ listen: [...listen, 'unix:a', 'unix:b'] }).message).toContain('more than 8');
});
