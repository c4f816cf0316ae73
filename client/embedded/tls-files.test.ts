import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { copyPair } from '../../test/rig/tls/pairs.ts';
import type { TlsFiles } from './api-messages.ts';
import { checkTlsFiles, describeTlsState, readTlsFiles } from './tls-files.ts';

const NOW_MS = Date.parse('2030-01-01');

let dir: string;
let files: TlsFiles;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-tls-files-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  files = copyPair('first', dir);
});

test('a certificate with its key is valid', () => {
  expect(checkTlsFiles(files, NOW_MS)).toEqual([]);
  // Keys of services often belong to a group that may read them.
  chmodSync(files.key, 0o640);
  expect(checkTlsFiles(files, NOW_MS)).toEqual([]);
});

test.each([0o644, 0o604, 0o660, 0o602])('a key with the mode %o is refused', (mode) => {
  chmodSync(files.key, mode);
  expect(() => checkTlsFiles(files, NOW_MS)).toThrow(`${files.key} has the mode ${mode.toString(8)}`);
});

test('a certificate that is not valid now is a warning', () => {
  expect(checkTlsFiles(files, Date.parse('2127-01-01'))).toEqual([expect.stringContaining('has expired: Nov')]);
  expect(checkTlsFiles(files, Date.parse('2020-01-01'))).toEqual([expect.stringContaining('is not valid before Nov')]);
});

test('a key of another certificate is refused', () => {
  const first = readTlsFiles(files);
  copyPair('second', dir);
  writeFileSync(files.cert, first.cert);
  expect(() => checkTlsFiles(files, NOW_MS)).toThrow(`${files.key} is not the key of ${files.cert}`);
});

test('files that hold no certificate and no key are refused', () => {
  const { cert, key } = readTlsFiles(files);
  writeFileSync(files.cert, key);
  expect(() => checkTlsFiles(files, NOW_MS)).toThrow(`${files.cert} is not a certificate`);
  writeFileSync(files.cert, cert);
  writeFileSync(files.key, cert);
  expect(() => checkTlsFiles(files, NOW_MS)).toThrow(`${files.key} is not a private key without a passphrase`);
});

test('a path that is missing, a folder, a pipe or too large is refused, and its reader does not wait', () => {
  expect(() => readTlsFiles({ ...files, cert: join(dir, 'gone') })).toThrow(/ENOENT.*gone/);
  expect(() => readTlsFiles({ ...files, cert: dir })).toThrow(`${dir} is not a file`);
  const pipe = join(dir, 'pipe');
  execFileSync('mkfifo', [pipe]);
  expect(() => readTlsFiles({ ...files, key: pipe })).toThrow(`${pipe} is not a file`);
  writeFileSync(files.cert, Buffer.alloc(1024 * 1024 + 1));
  expect(() => readTlsFiles(files)).toThrow('has more than 1048576 bytes');
});

test('another content, another file and a missing file are other states', () => {
  const states = [describeTlsState(files)];
  copyPair('second', dir);
  states.push(describeTlsState(files));
  rmSync(files.key);
  states.push(describeTlsState(files));
  expect(new Set(states).size).toBe(3);
  expect(describeTlsState(files)).toBe(states[2]);
});
