import { execFileSync } from 'node:child_process';
import { Buffer } from 'node:buffer';
import { describe, expect, it } from 'vitest';
import { BLOCK_BYTES, endMarker, writeHeader } from './entry.ts';
import { requireEndMarker } from './complete.ts';
import { readTar, type TarEntry } from './read.ts';
import { streamTar } from './stream.ts';
import { writeTar, type TarItem } from './write.ts';

const LONG = `${'folder-'.repeat(20)}/${'file-'.repeat(30)}`;
const ITEMS: readonly TarItem[] = [
  { kind: 'dir', path: 'bin', mode: 0o755 },
  { kind: 'file', path: 'bin/tool', mode: 0o755, body: Buffer.from('#!/bin/sh\n') },
  { kind: 'file', path: LONG, mode: 0o600, body: Buffer.alloc(1000, 'x') },
  { kind: 'symlink', path: 'bin/link', target: `../${LONG}` },
];

async function* pieces(body: Uint8Array, pieceBytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < body.length; at += pieceBytes) yield body.subarray(at, at + pieceBytes);
}

async function bytesOf(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

async function entriesOf(stream: AsyncIterable<Uint8Array>, maxBytes = 1024 * 1024): Promise<TarEntry[]> {
  const entries: TarEntry[] = [];
  for await (const entry of readTar(stream, maxBytes)) entries.push(entry);
  return entries;
}

describe('tar', () => {
  it.each([1, 511, 512, 513, 100_000])('is read correctly from pieces of %i bytes', async (pieceBytes) => {
    const entries = await entriesOf(pieces(await bytesOf(writeTar(ITEMS)), pieceBytes));
    expect(entries.map(({ kind, path, mode, linkTarget }) => ({ kind, path, mode, linkTarget }))).toEqual([
      { kind: 'dir', path: 'bin/', mode: 0o755, linkTarget: '' },
      { kind: 'file', path: 'bin/tool', mode: 0o755, linkTarget: '' },
      { kind: 'file', path: LONG, mode: 0o600, linkTarget: '' },
      { kind: 'symlink', path: 'bin/link', mode: 0o777, linkTarget: `../${LONG}` },
    ]);
    expect(entries[2]?.body.length).toBe(1000);
  });

  it.each([
    ['ends', 1024 * 1024],
    ['has too many bytes', 1],
  ])('closes its source when the tar %s', async (_when, maxBytes) => {
    let isTold = false;
    async function* held(): AsyncGenerator<Uint8Array> {
      try {
        yield* pieces(await bytesOf(writeTar(ITEMS)), 100_000);
        yield Buffer.alloc(1);
      } finally {
        isTold = true;
      }
    }
    await entriesOf(held(), maxBytes).catch(() => undefined);
    expect(isTold).toBe(true);
  });

  it('is compatible with the tar program of the system', async () => {
    const written = await bytesOf(writeTar(ITEMS));
    const listed = execFileSync('tar', ['-tf', '-'], { input: written })
      .toString()
      .split('\n')
      .filter((line) => line !== '');
    expect(listed).toEqual(['bin/', 'bin/tool', LONG, 'bin/link']);
    for (const format of ['gnu', 'pax', 'ustar']) {
      const theirs = execFileSync('tar', [
        `--format=${format}`,
        '-cf',
        '-',
        '-C',
        new URL('.', import.meta.url).pathname,
        'entry.ts',
      ]);
      expect((await entriesOf(pieces(theirs, 700))).map((entry) => entry.path)).toEqual(['entry.ts']);
    }
    const gnu = execFileSync('tar', [
      '--format=gnu',
      `--transform=s|.*|${LONG}|`,
      '-cf',
      '-',
      '-C',
      new URL('.', import.meta.url).pathname,
      'entry.ts',
    ]);
    expect((await entriesOf(pieces(gnu, 700))).map((entry) => entry.path)).toEqual([LONG]);
  });

  it('fails to be read if it is cut short, damaged or too large', async () => {
    const whole = await bytesOf(writeTar(ITEMS));
    await expect(entriesOf(pieces(whole.subarray(0, whole.length - 2 * BLOCK_BYTES), 512))).rejects.toThrow(
      'end marker',
    );
    await expect(entriesOf(pieces(whole.subarray(0, 1_600), 512))).rejects.toThrow('cut short');
    await expect(entriesOf(pieces(whole, 512), 500)).rejects.toThrow('more than 500 bytes');
    const damaged = Buffer.from(whole);
    damaged[0] = 0x7a;
    await expect(entriesOf(pieces(damaged, 512))).rejects.toThrow('checksum');
  });
});

describe('names and records in front of an entry', () => {
  const streamed = async (bytes: AsyncIterable<Uint8Array>): Promise<string[]> => {
    const paths: string[] = [];
    for await (const { path } of streamTar(bytes, 'latin1')) paths.push(path);
    return paths;
  };
  const whole = async (bytes: AsyncIterable<Uint8Array>): Promise<string[]> =>
    (await entriesOf(bytes, 64 * 1024 * 1024)).map(({ path }) => path);

  it.each([
    ['streamed', streamed],
    ['gathered', whole],
  ])('have a common size limit: %s', async (_how, read) => {
    const record = (index: number): string => `${index}`.padStart(7, 'k');
    const recordsOf = (from: number, count: number): Buffer => {
      const lines = Array.from({ length: count }, (_, index) => `13 ${record(from + index)}=1\n`);
      const body = Buffer.from(lines.join(''));
      const header = writeHeader({ path: 'pax', typeFlag: 'x', mode: 0o644, sizeBytes: body.length });
      return Buffer.concat([header, body, Buffer.alloc(-body.length & (BLOCK_BYTES - 1))]);
    };
    const file = writeHeader({ path: 'a', typeFlag: '0', mode: 0o644, sizeBytes: 0 });
    const each = Buffer.concat([recordsOf(0, 2_000), recordsOf(2_000, 2_000), file]);
    expect(await read(pieces(Buffer.concat([each, each, endMarker()]), 4096))).toEqual(['a', 'a']);
    // One group of records is within the limit. The limit must also hold for many groups before one entry.
    const many = Buffer.concat(Array.from({ length: 200 }, (_, index) => recordsOf(index * 4_000, 4_000)));
    await expect(read(pieces(Buffer.concat([many, file, endMarker()]), 65_536))).rejects.toThrow('65536 bytes');
    const empty = writeHeader({ path: 'pax', typeFlag: 'x', mode: 0o644, sizeBytes: 0 });
    const empties = Buffer.concat(Array.from({ length: 200 }, () => empty));
    await expect(read(pieces(Buffer.concat([empties, file, endMarker()]), 4096))).rejects.toThrow('65536 bytes');
  });
});

describe('the end marker', () => {
  const onCut = async (): Promise<Error> => new Error('cut');

  it.each([1, 300, 512, 4096])('is found in pieces of %i bytes, and the bytes pass unchanged', async (pieceBytes) => {
    const whole = await bytesOf(writeTar(ITEMS));
    expect((await bytesOf(requireEndMarker(pieces(whole, pieceBytes), onCut))).equals(whole)).toBe(true);
  });

  it('is missing if the stream was cut at any block, also inside a file of zeroes', async () => {
    const zeroes = Buffer.concat([
      writeHeader({ path: 'zeroes', typeFlag: '0', mode: 0o644, sizeBytes: 10 * BLOCK_BYTES }),
      Buffer.alloc(10 * BLOCK_BYTES),
      endMarker(),
    ]);
    for (let blocks = 0; blocks <= 11; blocks += 1) {
      await expect(
        bytesOf(requireEndMarker(pieces(zeroes.subarray(0, blocks * BLOCK_BYTES), 512), onCut)),
        `${blocks} blocks`,
      ).rejects.toThrow('cut');
    }
    await bytesOf(requireEndMarker(pieces(zeroes, 512), onCut));
  });
});
