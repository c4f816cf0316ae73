import { expect, test } from 'vitest';
import { chooseClientUrl } from './client-url.ts';

const listen = (host: string, problem: string | null = null) => ({
  url: `http://${host}:8400`,
  host,
  port: 8400,
  tls: false,
  problem,
});

test('the public URL is the one of people, else the first listener with an address of its own', () => {
  const listeners = [listen('0.0.0.0'), listen('192.0.2.7', 'the port is in use'), listen('127.0.0.1')];
  expect(chooseClientUrl({ publicUrl: 'https://api.example', listeners })).toBe('https://api.example');
  expect(chooseClientUrl({ publicUrl: null, listeners })).toBe('http://127.0.0.1:8400');
});

test.each([[[]], [[listen('0.0.0.0'), listen('::')]], [[listen('127.0.0.1', 'the port is in use')]]])(
  'listeners that no person can open have no URL',
  (listeners) => {
    expect(chooseClientUrl({ publicUrl: null, listeners })).toBeNull();
  },
);
