/**
 * Guests that break the protocol, on real VMs: each is ended within its time limit, and the worker neither hangs nor
 * uses more and more memory. More such guests, for example with half a frame, are in
 * `native/keeper/tests/hostile_guest.rs`.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Sandbox } from '../activities/ports/sandbox.ts';
import { writeCpio } from '../guest/image/cpio.ts';
import type { HostPieces } from '../setup/pieces/host-pieces.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { createRealHost, SMALL_VM } from '../test/conformance/sandbox/real-host.ts';
import { limit } from '../test/conformance/sandbox/behaviour.ts';
import { sweepVms } from './sweep.ts';
import { writeTar } from '../tar/write.ts';

/** An emulated guest on a busy machine reaches its first line in 30 s; for a silent guest, the keeper waits twice. */
const BOOT_TIMEOUT_MS = 40_000;
const HEAP_GROWTH_BYTES = 64 * 1024 * 1024;

interface HostileGuest {
  readonly name: string;
  /** The script that /init runs with the port open as descriptor 3. */
  readonly script: string;
  readonly code: 'vm/protocol' | 'vm/boot-timeout';
  readonly bootTimeoutMs: number;
}

const HELLO = String.raw`printf '\063\000\000\000\040{"protocol":1,"agent":"hostile","bootMs":1}        ' >&3`;

/** A session that is set up correctly; afterwards the guest is silent. */
const SILENT = [
  HELLO,
  String.raw`head -c 42 <&3 >/dev/null; printf '\005\000\000\000\004\001\000\000\000\001' >&3`,
  String.raw`head -c 5 <&3 >/dev/null; printf '\006\000\000\000\057\000\000\000\000{}' >&3`,
  'sleep 1000',
].join('; ');

const GUESTS: readonly HostileGuest[] = [
  { name: 'says nothing', script: 'sleep 1000', code: 'vm/boot-timeout', bootTimeoutMs: 4_000 },
  { name: 'dies at once', script: 'exit 1', code: 'vm/boot-timeout', bootTimeoutMs: BOOT_TIMEOUT_MS },
  { name: 'sends garbage', script: 'cat /dev/urandom >&3', code: 'vm/protocol', bootTimeoutMs: BOOT_TIMEOUT_MS },
  {
    name: 'announces 4 GiB',
    script: String.raw`printf '\377\377\377\377\040' >&3; sleep 1000`,
    code: 'vm/protocol',
    bootTimeoutMs: BOOT_TIMEOUT_MS,
  },
  {
    name: 'floods after its hello',
    script: `${HELLO}; cat /dev/zero >&3`,
    code: 'vm/protocol',
    bootTimeoutMs: BOOT_TIMEOUT_MS,
  },
];

describe('a hostile guest', () => {
  let folder: string;
  let pieces: HostPieces;
  beforeAll(async () => {
    pieces = await resolveHostPieces(readEnvironment(), { install: true, kernelKind: 'debian' });
    folder = await mkdtemp(join(tmpdir(), 'voidbox-hostile-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it.for(GUESTS.map((guest) => [guest.name, guest] as const))('that %s', { timeout: 200_000 }, async ([, guest]) => {
    const initramfs = await imageWithInit(folder, pieces.initramfs, guest);
    const host = await createRealHost({ ...pieces, initramfs }, { bootTimeoutMs: guest.bootTimeoutMs });
    const key = { runId: 'hostile', scope: 'guest', instance: [], generation: 0 };
    const heapBytes = process.memoryUsage().rss;
    try {
      const launched = host.backend.launch(key, SMALL_VM, limit());
      await expect(launched).rejects.toMatchObject({
        code: guest.code,
        message: expect.stringContaining('console') as string,
      });
      expect(process.memoryUsage().rss - heapBytes).toBeLessThan(HEAP_GROWTH_BYTES);
      await host.backend.release(key);
      expect((await sweepVms(host.pieces.keeper, host.vmsDir)).filter((vm) => vm.alive)).toEqual([]);
    } finally {
      await host.dispose();
    }
  });
});

describe('a guest that goes silent', () => {
  it('ends each exchange with it as a lost VM', { timeout: 200_000 }, async () => {
    const pieces = await resolveHostPieces(readEnvironment(), { install: true, kernelKind: 'debian' });
    const folder = await mkdtemp(join(tmpdir(), 'voidbox-silent-'));
    const initramfs = await imageWithInit(folder, pieces.initramfs, { name: 'silent', script: SILENT });
    const host = await createRealHost(
      { ...pieces, initramfs },
      { bootTimeoutMs: BOOT_TIMEOUT_MS, guestSilenceMs: 2_000 },
    );
    const exchanges: readonly ((sandbox: Sandbox) => Promise<unknown>)[] = [
      (sandbox) => sandbox.getTar('/workspace/out', limit()),
      (sandbox) => sandbox.readFile('/workspace/out.json', limit()),
      (sandbox) => sandbox.putTar('/workspace/in', writeTar([]), limit()),
    ];
    // This is asserted after the block: within it, a failure here would hide the first one.
    let left: readonly string[];
    try {
      for (const [generation, exchange] of exchanges.entries()) {
        const sandbox = await host.backend.launch(
          { runId: 'silent', scope: 'guest', instance: [], generation },
          SMALL_VM,
          limit(),
        );
        await expect(exchange(sandbox)).rejects.toMatchObject({
          code: 'vm/protocol',
          message: expect.stringContaining('went silent') as string,
        });
        sandbox.detach();
        // A lost VM can still be released.
        await host.backend.release({ runId: 'silent', scope: 'guest', instance: [], generation });
      }
    } finally {
      left = await host.dispose();
      await rm(folder, { recursive: true, force: true });
    }
    expect(left).toEqual([]);
  });
});

/** Makes the guest image with another /init after it, because a kernel unpacks archives one after the other. */
async function imageWithInit(
  folder: string,
  image: string,
  guest: Pick<HostileGuest, 'name' | 'script'>,
): Promise<string> {
  const script = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
mkdir -p /proc /sys && mount -t proc proc /proc && mount -t sysfs sys /sys
for module in $(cat /lib/modules/voidbox.order); do insmod /lib/modules/$module 2>/dev/null; done
for try in 1 2 3 4 5 6 7 8 9 10; do [ -e /dev/vport0p1 ] || sleep 0.2; done
exec 3<>/dev/vport0p1
${guest.script}
`;
  const path = join(folder, `${guest.name.replaceAll(' ', '-')}.cpio.gz`);
  const over = gzipSync(writeCpio([{ kind: 'file', path: 'init', mode: 0o755, content: Buffer.from(script) }]));
  await writeFile(path, Buffer.concat([await readFile(image), over]), { mode: 0o644 });
  return path;
}
