import { createSecretKey, randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { SEAL_BYTES } from '../../store/triggers.ts';
import { openValue, sealValue } from './sealed-value.ts';
import type { SecretKey } from './secret-keys.ts';

const ID = { name: 'API_KEY', deployment: 'web' };

function makeKey(id: string): SecretKey {
  return { id, key: createSecretKey(randomBytes(32)) };
}

const KEY = makeKey('a'.repeat(16));
const KEYS = { keys: [makeKey('b'.repeat(16)), KEY], file: '/keys' };

test.each(['x', 'ü😀\r\n', 'a'.repeat(65_536)])(
  'a sealed value opens with its key, wherever that is in the file',
  (text) => {
    const sealed = sealValue(text, ID, KEY);
    expect(openValue(sealed, ID, KEYS)).toBe(text);
    expect(sealed.bytes.length).toBe(Buffer.byteLength(text) + SEAL_BYTES);
  },
);

test('equal values have different nonces and different bytes', () => {
  const sealed = Array.from({ length: 64 }, () => Buffer.from(sealValue('equal', ID, KEY).bytes));
  expect(new Set(sealed.map((bytes) => bytes.subarray(0, 12).toString('hex'))).size).toBe(64);
  expect(new Set(sealed.map((bytes) => bytes.subarray(12).toString('hex'))).size).toBe(64);
});

test.each([
  ['another name', { name: 'OTHER', deployment: 'web' }],
  ['another deployment', { name: 'API_KEY', deployment: 'other' }],
  ['all deployments', { name: 'API_KEY', deployment: null }],
  ['the text of no deployment', { name: 'API_KEY', deployment: 'null' }],
])('a value that is moved to %s does not open', (_where, id) => {
  const sealed = sealValue('hunter2', ID, KEY);
  expect(() => openValue(sealed, id, KEYS)).toThrow('is not the one that was encrypted for it');
});

test('a value with one changed bit does not open, whichever byte has it', () => {
  const { keyId, bytes } = sealValue('hunter2', ID, KEY);
  for (let at = 0; at < bytes.length; at += 1) {
    const changed = Uint8Array.from(bytes, (byte, index) => (index === at ? byte ^ 1 : byte));
    expect(() => openValue({ keyId, bytes: changed }, ID, KEYS), `byte ${at}`).toThrow('API_KEY of web');
  }
});

test.each([0, 12, 27, 28, 34])('a value that is cut to %i bytes does not open', (length) => {
  const { keyId, bytes } = sealValue('hunter2', ID, KEY);
  expect(() => openValue({ keyId, bytes: bytes.slice(0, length) }, ID, KEYS)).toThrow(
    expect.objectContaining({ code: 'api/secret-damaged' }),
  );
});

test('a value whose key the file lacks is an error that names the key and the file', () => {
  const sealed = sealValue('hunter2', ID, makeKey('c'.repeat(16)));
  expect(() => openValue(sealed, ID, KEYS)).toThrow(
    expect.objectContaining({
      code: 'api/secrets-key',
      message: expect.stringMatching(/^(?!.*hunter2).*the key c{16}, which the file \/keys does not have/) as string,
    }),
  );
});
