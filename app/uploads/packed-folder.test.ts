/** A service unpacks what a command line on another machine packs. */
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { generateTar, PACK_LIMITS } from '../control/pack-folder.ts';
import { createUnpackTotal, UNPACK_LIMITS, unpackUpload } from './unpack-upload.ts';

test('a packed folder is unpacked with its files, folders, links and programs', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-packed-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const [from, to] = [join(dir, 'from'), join(dir, 'to')];
  const long = `${'folder-'.repeat(20)}/${'file-'.repeat(40)}`;
  for (const path of ['.git', 'empty', long.split('/')[0]!]) mkdirSync(join(from, path), { recursive: true });
  mkdirSync(to);
  writeFileSync(join(from, long), 'long');
  writeFileSync(Buffer.concat([Buffer.from(`${from}/`), Buffer.from([0xff, 0xfe])]), 'bytes');
  writeFileSync(join(from, 'program'), '#!/bin/sh\n');
  chmodSync(join(from, 'program'), 0o700);
  symlinkSync(`../${long}`, join(from, 'empty', 'link'));
  symlinkSync('/etc', join(from, 'out'));
  const request = {
    folder: to,
    key: 'data',
    limits: UNPACK_LIMITS,
    total: createUnpackTotal(),
    requireRoom: () => undefined,
  };
  await unpackUpload(generateTar(from), request);
  const names = (folder: string) => readdirSync(folder, { encoding: 'latin1' }).filter((name) => name !== 'out');
  expect(names(to)).toEqual(names(from));
  expect(readFileSync(join(to, long), 'utf8')).toBe('long');
  expect(lstatSync(join(to, 'program')).mode & 0o777).toBe(0o755);
  expect(readlinkSync(join(to, 'empty', 'link'))).toBe(`../${long}`);
  expect(readdirSync(to)).not.toContain('out');
});

test('the command line packs no more than the service unpacks', () => {
  expect(PACK_LIMITS).toEqual(UNPACK_LIMITS);
});
