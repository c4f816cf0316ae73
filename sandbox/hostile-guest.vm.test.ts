/**
 * Guests that break the protocol, on real VMs: each is ended within its time limit, and the worker neither hangs nor
 * uses more and more memory. More such guests, for example with half a frame, are in
 * `native/keeper/tests/hostile_guest/`.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Sandbox } from '../activities/ports/sandbox.ts';
import type { HostPieces } from '../setup/pieces/host-pieces.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { createRealHost, SMALL_VM } from '../test/conformance/sandbox/real-host.ts';
import { limit } from '../test/conformance/sandbox/behaviour.ts';
import { HOSTILE_GUESTS, makeHostileImage, SILENT_AFTER_START } from '../test/rig/vms/hostile-guest.ts';
import { sweepVms } from './sweep.ts';
import { writeTar } from '../tar/write.ts';

/** An emulated guest on a busy machine reaches its first line in 30 s; for a silent guest, the keeper waits twice. */
const BOOT_TIMEOUT_MS = 40_000;
const SILENT_BOOT_TIMEOUT_MS = 4_000;
const HEAP_GROWTH_BYTES = 64 * 1024 * 1024;

describe('a hostile guest', () => {
  let folder: string;
  let pieces: HostPieces;
  beforeAll(async () => {
    pieces = await resolveHostPieces(readEnvironment(), { install: true, kernelKind: 'debian' });
    folder = await mkdtemp(join(tmpdir(), 'voidbox-hostile-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it.for(HOSTILE_GUESTS.map((guest) => [guest.name, guest] as const))(
    'that %s',
    { timeout: 200_000 },
    async ([, guest]) => {
      const initramfs = await makeHostileImage(folder, pieces.initramfs, guest);
      const bootTimeoutMs = guest.isSilent === true ? SILENT_BOOT_TIMEOUT_MS : BOOT_TIMEOUT_MS;
      const host = await createRealHost({ ...pieces, initramfs }, { bootTimeoutMs });
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
    },
  );
});

describe('a guest that goes silent', () => {
  it('ends each exchange with it as a lost VM', { timeout: 200_000 }, async () => {
    const pieces = await resolveHostPieces(readEnvironment(), { install: true, kernelKind: 'debian' });
    const folder = await mkdtemp(join(tmpdir(), 'voidbox-silent-'));
    const initramfs = await makeHostileImage(folder, pieces.initramfs, { name: 'silent', script: SILENT_AFTER_START });
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
