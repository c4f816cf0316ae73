/** The limit of a VM that is taken over, with a keeper that never says that its guest is ready. */
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createDirectVmKey } from '../domain/run/direct-vm.ts';
import type { VmPieces } from '../setup/pieces/host-pieces.ts';
import { fakeKeeper, soon, useFakeKeepers } from '../test/rig/vms/fake-keeper.ts';
import { createRealVms } from './real-vms.ts';
import { makeVmsFolder } from './state-folder.ts';

const ID = `sb-${'1'.repeat(20)}`;

let stateDir: string;
beforeEach(() => (stateDir = mkdtempSync(join(tmpdir(), 'voidbox-real-vms-'))));
afterEach(() => {
  vi.useRealTimers();
  rmSync(stateDir, { recursive: true, force: true });
});
useFakeKeepers();

it('a VM that is not ready within 120 s, and 10 s for its keeper to answer, is not taken over', async () => {
  let noteLimit: (limitMs: unknown) => void = () => undefined;
  const asked = new Promise<unknown>((resolve) => (noteLimit = resolve));
  const keeper = await fakeKeeper({ ready: (request) => noteLimit(request['timeoutMs']) });
  const vmKey = createDirectVmKey(ID);
  const note = { id: ID, name: null, keepTtlMs: null, launchedByPid: 1, launchedAtMs: 1, hasSecrets: false };
  writeFileSync(join(keeper.dir, 'intent.json'), JSON.stringify({ vmKey, note, memoryMib: 128, vcpus: 1 }));
  const name = createHash('sha256').update(vmKey).digest('hex').slice(0, 16);
  symlinkSync(keeper.dir, join(await makeVmsFolder(stateDir), name));
  const refuse = (): Promise<never> => Promise.reject(new Error('this test needs no further piece'));
  const vms = createRealVms({
    stateDir,
    env: { bootTimeoutMs: null, diskFullLimitMs: null, snapshots: null, cpuTemplate: 'host' },
    pieces: () => Promise.resolve({ keeper: keeper.binary } as VmPieces),
    extra: refuse,
  });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  let failure: unknown = null;
  const connected = vms.connect(ID, soon()).catch((error: unknown) => (failure = error));
  expect(await asked).toBe(120_000);
  vi.advanceTimersByTime(129_999);
  expect([failure, vi.getTimerCount()]).toEqual([null, 1]);
  vi.advanceTimersByTime(1);
  await connected;
  expect(failure).toMatchObject({ code: 'vm/lost', message: expect.stringContaining('130000 ms') as string });
});
