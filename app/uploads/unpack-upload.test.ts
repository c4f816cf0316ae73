/** Tars of hostile clients: nothing is written outside of the folder of the upload. */
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { BLOCK_BYTES, endMarker, paddingBytes, writeHeader } from '../../tar/entry.ts';
import { writeTar, type TarItem } from '../../tar/write.ts';
import { createUnpackTotal, START_LIMITS, UNPACK_LIMITS, unpackUpload, type UnpackRequest } from './unpack-upload.ts';

let dir: string;
let folder: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-unpack-'));
  folder = join(dir, 'upload');
  mkdirSync(folder);
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function* give(...parts: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* parts;
}

function unpack(bytes: AsyncIterable<Uint8Array>, change: Partial<UnpackRequest> = {}): Promise<void> {
  const total = createUnpackTotal();
  const request = { folder, key: 'data', limits: UNPACK_LIMITS, total, requireRoom: () => undefined };
  return unpackUpload(bytes, { ...request, ...change });
}

const file = (path: string, text = path, mode = 0o644): TarItem => ({
  kind: 'file',
  path,
  mode,
  body: Buffer.from(text),
});
const folderAt = (path: string): TarItem => ({ kind: 'dir', path, mode: 0o755 });
const linkTo = (path: string, target: string): TarItem => ({ kind: 'symlink', path, target });

/** A header and its body, for tars that no writer makes. */
function entry(path: string, typeFlag: string, body = Buffer.alloc(0), linkTarget = ''): Buffer {
  const header = writeHeader({ path, typeFlag, mode: 0o644, sizeBytes: body.length, linkTarget, names: 'latin1' });
  return Buffer.concat([header, body, Buffer.alloc(paddingBytes(body.length))]);
}

/** An entry whose path comes from a pax record, which can contain any byte. */
function paxEntry(path: string): Buffer {
  const record = (length: number): string => `${length} path=${path}\n`;
  const length = [...Array(200).keys()].find((each) => Buffer.byteLength(record(each)) === each)!;
  return Buffer.concat([entry('pax', 'x', Buffer.from(record(length))), entry('short', '0', Buffer.from('x'))]);
}

test('files, folders, links that stay inside and hard links are unpacked, with the bit for programs only', async () => {
  await unpack(
    writeTar([
      folderAt('.'),
      file('a/tool', 'run', 0o6777),
      folderAt('a'),
      file('a/b/c', 'deep'),
      linkTo('a/b/up', '../tool'),
      { kind: 'hardlink', path: 'same', target: 'a/b/c' },
      file('z', '', 0o000),
    ]),
  );
  expect(readFileSync(join(folder, 'a/b/c'), 'utf8')).toBe('deep');
  expect(readlinkSync(join(folder, 'a/b/up'))).toBe('../tool');
  expect(lstatSync(join(folder, 'same')).ino).toBe(lstatSync(join(folder, 'a/b/c')).ino);
  expect(lstatSync(join(folder, 'a/tool')).mode & 0o7777).toBe(0o755);
  expect(lstatSync(join(folder, 'z')).mode & 0o7777).toBe(0o600);
  expect(['a', 'a/b'].map((path) => lstatSync(join(folder, path)).mode & 0o7777)).toEqual([0o755, 0o755]);
});

test('a name that is not UTF-8 stays as it is', async () => {
  await unpack(give(entry('\xff\xfe', '0', Buffer.from('x')), endMarker()));
  expect(readdirSync(folder, { encoding: 'latin1' })).toEqual(['\xff\xfe']);
});

describe('an entry is refused with its place, and nothing is written outside, if it is', () => {
  test.each([
    ['an absolute path', [file('ok'), file('/etc/passwd')], 'entry 2, `/etc/passwd`: its path is absolute'],
    ['a path that climbs', [file('../out')], 'entry 1, `../out`: its path'],
    ['a path that climbs in its middle', [file('a/../../out')], 'leads out of the upload'],
    ['a folder that climbs', [{ kind: 'dir', path: '..', mode: 0o755 }], 'leads out of the upload'],
    ['a link to an absolute path', [linkTo('link', '/etc/passwd')], 'entry 1, `link`: it is a link that leads out'],
    ['a link that climbs', [linkTo('a/link', '../../out')], 'it is a link that leads out'],
    ['a link that climbs after a name', [linkTo('a/link', 'b/../../x')], 'it is a link that leads out'],
    ['a file below a link', [folderAt('b'), linkTo('a', 'b'), file('a/out')], 'entry 3, `a/out`: `a` is not a folder'],
    ['a folder in the place of a link', [folderAt('b'), linkTo('a', 'b'), folderAt('a')], '`a` is not a folder'],
    ['a file in the place of a link', [linkTo('a', 'b'), file('a')], 'there are two entries with this path'],
    ['a file in the place of a folder', [folderAt('a'), file('a')], 'there are two entries with this path'],
    ['a link in the place of a folder', [file('a/b'), linkTo('a', 'b')], 'there are two entries with this path'],
    ['a second file', [file('a'), file('./a')], 'entry 2, `a`: there are two entries with this path'],
    ['a second folder', [folderAt('a'), folderAt('a')], 'there are two entries with this path'],
    ['a file below a file', [file('a'), file('a/b')], '`a` is not a folder'],
    ['a hard link out', [{ kind: 'hardlink', path: 'a', target: '../out' }], 'it is a hard link'],
    ['a hard link to an absolute path', [{ kind: 'hardlink', path: 'a', target: '/etc/passwd' }], 'it is a hard link'],
    ['a hard link to a link', [linkTo('l', 'x'), { kind: 'hardlink', path: 'a', target: 'l' }], 'it is a hard link'],
    ['a hard link to a later file', [{ kind: 'hardlink', path: 'a', target: 'b' }, file('b')], 'it is a hard link'],
    [
      'a hard link through a link',
      [file('d/f'), linkTo('l', 'd'), { kind: 'hardlink', path: 'a', target: 'l/f' }],
      'it is a hard link',
    ],
    ['a device', [{ kind: 'device', path: 'null', major: 1, minor: 3 }], 'only files, folders and links'],
    ['a pipe', [{ kind: 'fifo', path: 'pipe' }], 'only files, folders and links'],
    ['a path of 200 folders', [file(`${'a/'.repeat(200)}b`)], 'too long'],
    ['a name of 256 bytes', [file('x'.repeat(256))], 'too long'],
  ] satisfies [string, TarItem[], string][])('%s', async (_what, items, message) => {
    const refusal: unknown = await unpack(writeTar(items)).catch((error: unknown) => error);
    expect(refusal).toMatchObject({
      code: 'api/upload-refused',
      message: expect.stringMatching(/^the upload for `data`: entry \d+, `/),
    });
    expect((refusal as Error).message).toContain(message);
    expect(readdirSync(dir)).toEqual(['upload']);
  });

  test.each([
    ['a path with a zero byte', paxEntry('a\0b'), 'its path is absolute, too long'],
    ['an absolute path of a long record', paxEntry('/etc/passwd'), 'its path is absolute'],
    ['a sparse file', entry('a', 'S', Buffer.from('x')), 'only files, folders and links'],
    ['a file of an unknown kind', entry('a', 'V'), 'only files, folders and links'],
  ])('%s', async (_what, bytes, message) => {
    await expect(unpack(give(bytes, endMarker()))).rejects.toThrow(message);
    expect(readdirSync(dir)).toEqual(['upload']);
  });

  test('the path of another upload', async () => {
    mkdirSync(join(folder, '.outside'));
    symlinkSync('/etc', join(folder, 'planted'));
    await expect(unpack(writeTar([file('.outside/a')]))).rejects.toThrow('another upload has this path');
    await expect(unpack(writeTar([file('planted/a')]))).rejects.toThrow('another upload has this path');
    await expect(unpack(writeTar([file('planted')]))).rejects.toThrow('another upload has this path');
  });
});

test.each([
  ['no tar', Buffer.alloc(BLOCK_BYTES, 'x'), '"xxxxxxxx" is not an octal number'],
  ['compressed', Buffer.concat([Buffer.from([0x1f, 0x8b]), Buffer.alloc(BLOCK_BYTES)]), 'the checksum'],
  ['empty', Buffer.alloc(0), 'it was cut short'],
  ['cut in a file', entry('a', '0', Buffer.alloc(5_000)).subarray(0, 2_000), 'it was cut short'],
  ['without an end', entry('a', '0'), 'it was cut short'],
])('an upload that is %s is refused', async (_what, bytes, message) => {
  await expect(unpack(give(bytes))).rejects.toMatchObject({
    code: 'api/upload-refused',
    message: expect.stringContaining(`it is not a whole tar: ${message}`),
  });
});

test('entries and bytes have limits, and implied folders count', async () => {
  expect(UNPACK_LIMITS).toEqual({ entries: 100_000, bytes: 2 * 1024 ** 3 });
  const limits = { entries: 4, bytes: 10 };
  await unpack(writeTar([file('a/b/c', '0123456789'), linkTo('l', 'a')]), { limits });
  rmSync(folder, { recursive: true });
  mkdirSync(folder);
  await expect(unpack(writeTar([file('a/b/c', ''), linkTo('l', 'a'), file('m', '')]), { limits })).rejects.toThrow(
    'entry 5, `m`: the tar has more than 4 entries',
  );
  await expect(unpack(writeTar([file('1/2/3/4/5')]), { limits })).rejects.toThrow('more than 4 entries');
  await expect(unpack(writeTar([file('x', '012345'), file('y', '56789')]), { limits })).rejects.toThrow(
    'all files together have more than 10 bytes',
  );
});

test('all uploads of a start have a limit together', async () => {
  expect(START_LIMITS).toEqual({ entries: 200_000, bytes: 4 * 1024 ** 3 });
  const total = createUnpackTotal({ entries: 3, bytes: 10 });
  await unpack(writeTar([file('a', '0123'), file('b', '')]), { total });
  await unpack(writeTar([file('c', '012345')]), { total });
  await expect(unpack(writeTar([file('d', '')]), { total })).rejects.toThrow(
    'entry 1, `d`: all uploads of the request have more than 3 entries',
  );
  const bytes = createUnpackTotal({ entries: 10, bytes: 10 });
  await unpack(writeTar([file('e', '0123')]), { total: bytes });
  await expect(unpack(writeTar([file('f', '0123456')]), { total: bytes })).rejects.toThrow(
    'all uploads of the request have more than 10 bytes',
  );
});

test('unpacking stops if the room of the disk is reserved', async () => {
  const requireRoom = (): void => {
    throw new Error('no room');
  };
  const bytes = entry('a', '0', Buffer.alloc(17 * 1024 ** 2));
  await expect(unpack(give(bytes, endMarker()), { requireRoom })).rejects.toThrow('no room');
});

test.each([
  ['empty files', (index: number) => entry(`f${index}`, '0')],
  ['folders', (index: number) => entry(`d${index}`, '5')],
  ['links', (index: number) => entry(`l${index}`, '2', Buffer.alloc(0), 'x')],
])('the room of the disk is looked at during a tar of %s', async (_what, makeEntry) => {
  let looks = 0;
  // Each entry takes 4 KiB of the disk. The first look is before the first entry, the second one after 16 MiB.
  const parts = Array.from({ length: 4_200 }, (_each, index) => makeEntry(index));
  await unpack(give(Buffer.concat(parts), endMarker()), { requireRoom: () => void (looks += 1) });
  expect(looks).toBe(2);
});

test('a small tar is refused on a disk without room', async () => {
  const requireRoom = (): void => {
    throw new Error('no room');
  };
  await expect(unpack(give(entry('a', '0'), endMarker()), { requireRoom })).rejects.toThrow('no room');
});
