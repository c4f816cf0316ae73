import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { DiskRoom } from '../../activities/ports/local-store.ts';
import { UPLOAD_LIMITS, type UploadStore } from '../uploads.ts';
import { createFileUploads, findUploads } from './uploads.ts';

const LIMITS = { ...UPLOAD_LIMITS, blobBytes: 1_000, totalBytes: 2_500, leastBytes: 100 };
const ROOM: DiskRoom = { availableBytes: 1e9, sizeBytes: 1e10, floorBytes: 1e8, isLow: false };

let dir: string;
let nowMs: number;
let room: DiskRoom;
let uploads: UploadStore;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-uploads-'));
  nowMs = Date.now();
  room = ROOM;
  uploads = createFileUploads({ stateDir: dir, limits: LIMITS, now: () => nowMs, readRoom: () => room });
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

async function* piecesOf(bytes: Uint8Array, pieceBytes = 100): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

function put(bytes: Uint8Array, announcedBytes: number | null = bytes.length): Promise<unknown> {
  return uploads.put(hashOf(bytes), piecesOf(bytes), announcedBytes);
}

/** Bytes of a length that differ by their letter. */
const fill = (length: number, letter: string): Buffer => Buffer.alloc(length, letter);

function gate(): { readonly promise: Promise<void>; resolve(): void } {
  let open = (): void => undefined;
  const promise = new Promise<void>((resolve) => (open = resolve));
  return { promise, resolve: () => open() };
}

function names(): readonly string[] {
  return existsSync(findUploads(dir)) ? readdirSync(findUploads(dir)).toSorted() : [];
}

test('an upload is found and read by its hash, and its file is read-only', async () => {
  const bytes = fill(950, 'a');
  const sha256 = hashOf(bytes);
  expect(await uploads.find(sha256)).toBeNull();
  expect(await put(bytes)).toEqual({ sha256, sizeBytes: 950 });
  expect(await uploads.find(sha256)).toEqual({ sha256, sizeBytes: 950 });
  expect(names()).toEqual([sha256]);
  expect(statSync(join(findUploads(dir), sha256)).mode & 0o777).toBe(0o400);
  const held = await uploads.hold(sha256);
  const parts: Uint8Array[] = [];
  for await (const part of held!.bytes()) parts.push(part);
  await held!.close();
  expect(Buffer.concat(parts).equals(bytes)).toBe(true);
});

test('an upload without bytes is stored', async () => {
  await put(Buffer.alloc(0));
  expect(await uploads.find(hashOf(Buffer.alloc(0)))).toMatchObject({ sizeBytes: 0 });
});

test('bytes with another hash are refused, and nothing of them is left', async () => {
  const refused = uploads.put(hashOf(fill(5, 'a')), piecesOf(fill(5, 'b')), 5);
  await expect(refused).rejects.toMatchObject({ code: 'api/wrong-hash' });
  expect(names()).toEqual([]);
});

test('a cut upload leaves nothing', async () => {
  const cut = async function* (): AsyncGenerator<Uint8Array> {
    yield fill(100, 'a');
    throw new Error('the connection was lost');
  };
  await expect(uploads.put(hashOf(fill(200, 'a')), cut(), 200)).rejects.toThrow('the connection was lost');
  expect(names()).toEqual([]);
});

test('two uploads of one hash at once both succeed', async () => {
  const bytes = fill(900, 'a');
  expect(await Promise.all([put(bytes), put(bytes)])).toEqual(
    Array.from({ length: 2 }, () => ({ sha256: hashOf(bytes), sizeBytes: 900 })),
  );
  expect(names()).toEqual([hashOf(bytes)]);
});

test.each([
  ['announced', 1_001],
  ['not announced', null],
])('an upload that is too large by a byte is refused, if its size is %s', async (_how, announcedBytes) => {
  await put(fill(1_000, 'a'));
  await expect(put(fill(1_001, 'a'), announcedBytes)).rejects.toMatchObject({ code: 'api/too-large' });
  expect(names()).toHaveLength(1);
});

test.each([
  ['announced', 600],
  ['not announced', null],
])('all uploads together have a limit, if the size is %s', async (_how, announcedBytes) => {
  await put(fill(1_000, 'a'));
  await put(fill(1_000, 'b'));
  await expect(put(fill(600, 'c'), announcedBytes)).rejects.toMatchObject({ code: 'api/uploads-full' });
  await put(fill(500, 'c'), announcedBytes && 500);
  expect(names()).toHaveLength(3);
});

test('uploads that are on their way count, and small ones count as at least the least size', async () => {
  const stop = gate();
  const slow = async function* (): AsyncGenerator<Uint8Array> {
    yield fill(900, 'a');
    await stop.promise;
  };
  const first = uploads.put(hashOf(fill(900, 'a')), slow(), 900);
  await expect
    .poll(() => statSync(join(findUploads(dir), names()[0] ?? ''), { throwIfNoEntry: false })?.size)
    .toBe(900);
  for (let count = 0; count < 16; count += 1) await put(fill(1, String.fromCharCode(98 + count)));
  await expect(put(fill(1, 'z'))).rejects.toMatchObject({ code: 'api/uploads-full' });
  stop.resolve();
  await first;
});

test('the product has the limits that the pages name', () => {
  expect(UPLOAD_LIMITS).toEqual({
    blobBytes: 2 * 1024 ** 3,
    totalBytes: 20 * 1024 ** 3,
    leastBytes: 1024 ** 2,
    keptMs: 86_400_000,
    abandonedMs: 300_000,
  });
});

test('no upload takes the room that is left for runs, and nothing is left of it', async () => {
  room = { ...ROOM, isLow: true };
  await expect(put(fill(10, 'a'))).rejects.toMatchObject({ code: 'host/disk-full' });
  await expect(uploads.makeFolder('r')).rejects.toMatchObject({ code: 'host/disk-full' });
  room = ROOM;
  const large = createFileUploads({ stateDir: dir, limits: UPLOAD_LIMITS, now: () => nowMs, readRoom: () => room });
  const bytes = fill(17 * 1024 ** 2, 'a');
  const fills = async function* (): AsyncGenerator<Uint8Array> {
    yield fill(100, 'a');
    room = { ...ROOM, isLow: true };
    yield bytes.subarray(100);
  };
  await expect(large.put(hashOf(bytes), fills(), bytes.length)).rejects.toMatchObject({ code: 'host/disk-full' });
  expect(names()).toEqual([]);
});

test('an upload without a use for 24 hours is deleted, and a use renews its time', async () => {
  const [unused, used] = [fill(10, 'a'), fill(10, 'b')];
  await put(unused);
  await put(used);
  nowMs += LIMITS.keptMs - 60_000;
  await uploads.find(hashOf(used));
  nowMs += 120_000;
  await uploads.sweep();
  expect(names()).toEqual([hashOf(used)]);
});

test('an upload that a start holds stays readable after it is deleted', async () => {
  await put(fill(10, 'a'));
  const held = await uploads.hold(hashOf(fill(10, 'a')));
  nowMs += LIMITS.keptMs + 60_000;
  await uploads.sweep();
  expect(names()).toEqual([]);
  let size = 0;
  for await (const part of held!.bytes()) size += part.length;
  await held!.close();
  expect(size).toBe(10);
});

test('half a file of a killed process is deleted when it has not grown for minutes', async () => {
  await put(fill(10, 'a'));
  const [old, young] = ['old', 'young'].map((name) => join(findUploads(dir), `${name}.partial`)) as [string, string];
  for (const path of [old, young]) writeFileSync(path, 'half');
  utimesSync(old, new Date(nowMs - 301_000), new Date(nowMs - 301_000));
  await uploads.sweep();
  expect(names()).toEqual([hashOf(fill(10, 'a')), 'young.partial'].toSorted());
});

test.each(['', '..', '../runs', 'A'.repeat(64), 'a'.repeat(63), `${'a'.repeat(63)}\n`])(
  '%j is no hash',
  async (text) => {
    await expect(uploads.find(text)).rejects.toMatchObject({ code: 'api/invalid-request' });
    await expect(uploads.put(text, piecesOf(Buffer.alloc(1)), 1)).rejects.toMatchObject({
      code: 'api/invalid-request',
    });
    expect(names()).toEqual([]);
  },
);

test('each start has a folder of its own, and a dropped folder leaves nothing of a run that has not started', async () => {
  const [one, other] = [await uploads.makeFolder('r/1'), await uploads.makeFolder('r/1')];
  expect(one).not.toBe(other);
  expect(one.startsWith(join(dir, 'runs'))).toBe(true);
  expect([one, join(one, '..'), join(one, '../..')].map((path) => statSync(path).mode & 0o777)).toEqual([
    0o755, 0o700, 0o700,
  ]);
  writeFileSync(join(one, 'file'), '');
  await uploads.dropFolder(one);
  expect(existsSync(other)).toBe(true);
  await uploads.dropFolder(other);
  expect(readdirSync(join(dir, 'runs'))).toEqual([]);
});
