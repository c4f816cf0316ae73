/** Snapshots that are made ahead of time, and VMs that start from them. */
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readEnvironment } from '../setup/environment.ts';
import { resolveVmPieces } from '../setup/resolve.ts';
import { identifyFile } from '../setup/snapshots/replaced-files.ts';
import { readSnapshotFolder } from '../setup/snapshots/snapshot-store.ts';
import { type BaseMaker, type BaseSize, createBaseMaker } from './base-snapshots.ts';
import { checkLaunchOptions } from './launch-options.ts';
import { createRealVms } from './real-vms.ts';
import type { VmSource } from './vm-source.ts';

/** A size that no other test has. */
const SIZE: BaseSize = { memoryMib: 176, vcpus: 1, hasMounts: false, mode: 'qemu' };

/** All properties: a failure then prints its reason. */
const MADE = {
  outcome: 'made',
  key: expect.any(String) as string,
  bootMs: expect.any(Number) as number,
  startMs: expect.any(Number) as number,
};

let folder: string;
let dir: string;
let maker: BaseMaker;
let vms: VmSource;
const limit = (): AbortSignal => AbortSignal.timeout(120_000);
const refuse = (): Promise<never> => Promise.reject(new Error('this test needs no further piece'));

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-bases-'));
  dir = join(folder, 'snapshots');
  const read = readEnvironment();
  const env = { ...read, stateDir: join(folder, 'state'), snapshots: { dir, maxMib: 1_024 } };
  const pieces = await resolveVmPieces(read, { install: true });
  maker = createBaseMaker({ env, pieces, extra: refuse, disk: refuse });
  vms = createRealVms({ stateDir: env.stateDir, env, pieces: () => Promise.resolve(pieces), extra: refuse });
});
afterAll(async () => {
  const left = await vms.list();
  rmSync(folder, { recursive: true, force: true });
  if (left.length > 0) throw new Error(`VMs are left: ${left.map(({ id }) => id).join(', ')}`);
});

const listKeys = (): readonly string[] => readdirSync(dir).filter((name) => !name.startsWith('.'));

it('a size gets one snapshot, which exists at the second request, and VMs of the size start from it', async () => {
  const made = await maker.make(SIZE, limit());
  expect(made).toEqual(MADE);
  const [key] = listKeys();
  expect(made).toMatchObject({ key });
  expect(await maker.make(SIZE, limit())).toMatchObject({ outcome: 'exists', key });
  expect(listKeys()).toEqual([key]);
  const [snapshot] = (await readSnapshotFolder(dir)).snapshots;
  // The keeper describes files as the check of replaced files does.
  expect(snapshot).toMatchObject({ state: 'usable', record: { mountNamespace: expect.any(Number) as number } });
  const { initramfs } = snapshot!.record!.parts;
  expect(initramfs).toBe(await identifyFile(String(initramfs).split(' ')[0]!));
  const choice = checkLaunchOptions({ memoryMib: SIZE.memoryMib, diskMib: 128 });
  const { vm } = await vms.launch(choice, limit());
  expect(vm.facts).toMatchObject({ start: 'snapshot', snapshot: key, startNote: null });
  await vm.stop();
});

it('VMs with read-only mounts have another snapshot, whichever folders they mount', async () => {
  const [base] = listKeys();
  const made = await maker.make({ ...SIZE, hasMounts: true }, limit());
  expect(made).toEqual(MADE);
  const [key] = listKeys().filter((name) => name !== base);
  const mounts = [
    { hostPath: folder, guestPath: '/data' },
    { hostPath: folder, guestPath: '/more' },
  ];
  const { vm } = await vms.launch(checkLaunchOptions({ memoryMib: SIZE.memoryMib, mounts }), limit());
  expect(vm.facts).toMatchObject({ start: 'snapshot', snapshot: key });
  await vm.stop();
});

it('a folder that others may enter makes no snapshot, and the result names the remedy', async () => {
  rmSync(dir, { recursive: true });
  mkdirSync(dir);
  chmodSync(dir, 0o755);
  expect(await maker.make(SIZE, limit())).toMatchObject({
    outcome: 'failed',
    reason: expect.stringContaining('chmod 700') as string,
  });
  expect(listKeys()).toEqual([]);
});
