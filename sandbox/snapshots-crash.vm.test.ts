/**
 * Processes die and files disappear while a snapshot is made, published, deleted or read. No VM is lost that its own
 * keeper can still start, no incomplete snapshot is used, and nothing is left.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { LaunchSpec, Sandbox } from '../activities/ports/sandbox.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { limit, request, textOf } from '../test/conformance/sandbox/behaviour.ts';
import { createRealHost, SMALL_VM, type RealHost } from '../test/conformance/sandbox/real-host.ts';
import {
  changeInside,
  copySnapshot,
  descendantsOf,
  isPublishing,
  keepersIn,
  leftoversIn,
  listSnapshots,
  partialBytes,
  soon,
  vmmsBelow,
} from '../test/rig/vms/snapshot-folder.ts';

const VM: LaunchSpec = { ...SMALL_VM, memoryMib: 160 };

let folder: string;
let shared: RealHost;
/** The folder of a snapshot that tests of copies share, its key, and a copy of it. */
let dir: string;
let key: string;
let spare: string;
let count = 0;
const hosts: RealHost[] = [];

async function hostWith(snapshots: string): Promise<RealHost> {
  const host = await createRealHost(shared?.pieces ?? (await resolveHostPieces(readEnvironment(), { install: true })), {
    snapshots: { dir: snapshots, maxMib: 1024 },
  });
  hosts.push(host);
  return host;
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-snapshots-crash-'));
  dir = join(folder, 'snapshots');
  spare = join(folder, 'spare');
  shared = await hostWith(dir);
});
afterAll(async () => {
  const left: string[] = [];
  for (const host of hosts) left.push(...(await host.dispose()));
  rmSync(folder, { recursive: true, force: true });
  if (left.length > 0) throw new Error(`VMs are left: ${left.join(', ')}`);
});

function launch(host: RealHost = shared, spec: LaunchSpec = VM): Promise<Sandbox> {
  const vmKey = { runId: 'crash', scope: `vm-${(count += 1)}`, instance: [], generation: 0 };
  return host.backend.launch(vmKey, spec, limit());
}

async function expectWorks(vm: Sandbox): Promise<void> {
  expect(await textOf(vm, request('echo', ['works']))).toBe('works');
  await vm.stop();
}

/** Begins a launch. Its failure is a result, because the test kills processes of it first. */
function begin(host: RealHost): { readonly outcome: Promise<Sandbox | Error>; readonly keeper: Promise<number> } {
  const before = keepersIn(host.vmsDir);
  const outcome = launch(host).catch((error: unknown) => error as Error);
  const keeper = soon('a keeper', () => keepersIn(host.vmsDir).find((pid) => !before.includes(pid)));
  return { outcome, keeper };
}

/** Kills a process, and checks that these processes end with it. */
async function kill(pid: number, others: readonly number[] = []): Promise<void> {
  process.kill(pid, 'SIGKILL');
  await expect.poll(() => others.filter(isAlive)).toEqual([]);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

it('two launches make the same snapshot at once: one makes it, the other boots, and both work', async () => {
  const both = await Promise.all([launch(), launch()]);
  for (const vm of both) {
    expect(vm.facts).toMatchObject({ start: 'cold', startNote: null });
    await expectWorks(vm);
  }
  await expect.poll(() => listSnapshots(dir)).toHaveLength(1);
  expect(leftoversIn(dir)).toEqual([]);
  key = listSnapshots(dir)[0]!;
  copySnapshot(join(dir, key), spare);
  const copy = await launch();
  expect(copy.facts).toMatchObject({ start: 'snapshot', snapshot: key, startNote: null });
  await expectWorks(copy);
});

it('a keeper that is killed while its VM reads a snapshot leaves no process, and the snapshot', async () => {
  const { outcome, keeper } = begin(shared);
  const pid = await keeper;
  const [vmm] = await soon('a copy', () => oneOrMore(vmmsBelow(pid, 'copies')));
  await kill(pid, [...descendantsOf(pid), vmm!]);
  expect(await outcome).toMatchObject({ code: 'vm/lost' });
  const copy = await launch();
  expect(copy.facts).toMatchObject({ start: 'snapshot', startNote: null });
  await expectWorks(copy);
});

it('a VMM that is killed while it reads a snapshot costs a boot, the reason is named, and the snapshot stays', async () => {
  const { outcome, keeper } = begin(shared);
  const pid = await keeper;
  const [vmm] = await soon('a copy', () => oneOrMore(vmmsBelow(pid, 'copies')));
  await kill(vmm!, [vmm!]);
  const vm = (await outcome) as Sandbox;
  const note = new RegExp(`^snapshot ${key}: .*; the VM boots instead$`, 's');
  expect(vm.facts).toMatchObject({ start: 'cold', snapshot: null, startNote: expect.stringMatching(note) as string });
  await expectWorks(vm);
  const copy = await launch();
  expect(copy.facts).toMatchObject({ start: 'snapshot', startNote: null });
  await expectWorks(copy);
});

it('a snapshot that is deleted while a copy starts from it is read to its end', async () => {
  const { outcome, keeper } = begin(shared);
  const pid = await keeper;
  const [vmm] = await soon('a copy', () => oneOrMore(vmmsBelow(pid, 'copies')));
  process.kill(vmm!, 'SIGSTOP');
  // As an eviction does it.
  const gone = join(dir, `.gone-${key}-1`);
  renameSync(join(dir, key), gone);
  rmSync(gone, { recursive: true });
  process.kill(vmm!, 'SIGCONT');
  const vm = (await outcome) as Sandbox;
  expect(vm.facts).toMatchObject({ start: 'snapshot', snapshot: key, startNote: null });
  await expectWorks(vm);
  copySnapshot(spare, join(dir, key));
});

it('a flipped bit in a state that QEMU refuses costs a boot, and the reason is named', async () => {
  // In the name of the machine.
  changeInside(join(dir, key), 'state', (bytes) => (bytes[14] = bytes[14]! ^ 2));
  const vm = await launch();
  const startNote = expect.stringContaining(`snapshot ${key}: `) as string;
  expect(vm.facts).toMatchObject({ start: 'cold', startNote });
  await expectWorks(vm);
  copySnapshot(spare, join(dir, key));
});

it('a flipped bit that only the hash of the state shows costs a boot, and the snapshot is deleted by name', async () => {
  const flip = (bytes: Buffer): void => void (bytes[bytes.length >> 1]! ^= 1);
  changeInside(join(dir, key), 'state', flip, { keepsHash: true });
  const vm = await launch();
  const startNote = expect.stringContaining(`snapshot ${key} was deleted: its state has the SHA-256 `) as string;
  expect(vm.facts).toMatchObject({ start: 'cold', startNote });
  await expectWorks(vm);
  await expect.poll(() => listSnapshots(dir)).toEqual([key]);
  copySnapshot(spare, join(dir, key));
});

it('a cache that is read-only gives its snapshots, and a VM that finds none boots and names the reason', async () => {
  const readOnly = join(folder, 'read-only');
  mkdirSync(readOnly, { mode: 0o700 });
  execFileSync('mount', ['--bind', dir, readOnly]);
  try {
    execFileSync('mount', ['-o', 'remount,bind,ro', readOnly]);
    const host = await hostWith(readOnly);
    const copy = await launch(host);
    expect(copy.facts).toMatchObject({ start: 'snapshot', snapshot: key, startNote: null });
    await expectWorks(copy);
    const vm = await launch(host, { ...VM, memoryMib: 168 });
    const startNote = expect.stringMatching(/^snapshots are not used: .*Read-only file system/) as string;
    expect(vm.facts).toMatchObject({ start: 'cold', startNote });
    await expectWorks(vm);
  } finally {
    execFileSync('umount', ['--lazy', readOnly]);
  }
});

it('a folder of snapshots that is deleted under a running VM costs the next VM a boot', async () => {
  const running = await launch();
  expect(running.facts.start).toBe('snapshot');
  rmSync(dir, { recursive: true });
  expect(await textOf(running, request('echo', ['runs']))).toBe('runs');
  const next = await launch();
  expect(next.facts).toMatchObject({ start: 'cold', startNote: null });
  await expectWorks(next);
  await expect.poll(() => listSnapshots(dir)).toEqual([key]);
  await expectWorks(running);
});

it('a folder of snapshots that is deleted while a snapshot is made costs only the snapshot', async () => {
  const own = join(folder, 'deleted');
  const host = await hostWith(own);
  const { outcome } = begin(host);
  await soon('a partial snapshot', () => (partialBytes(own) ?? 0) > 0);
  rmSync(own, { recursive: true });
  const vm = (await outcome) as Sandbox;
  expect(vm.facts.start).toBe('cold');
  await expectWorks(vm);
  expect(listSnapshots(own)).toEqual([]);
});

it('a VMM that is killed while it is saved is followed by a boot, and the reason is named', async () => {
  const own = join(folder, 'vmm');
  const host = await hostWith(own);
  const { outcome, keeper } = begin(host);
  await soon('a partial snapshot', () => (partialBytes(own) ?? 0) > 0);
  const [vmm] = vmmsBelow(await keeper);
  await kill(vmm!, [vmm!]);
  const vm = (await outcome) as Sandbox;
  const startNote = expect.stringContaining('no snapshot was made: ') as string;
  expect(vm.facts).toMatchObject({ start: 'cold', startNote });
  expect([listSnapshots(own), leftoversIn(own)]).toEqual([[], []]);
  await expectWorks(vm);
});

it('a keeper that is killed while it publishes a snapshot leaves a complete one, or none that counts', async () => {
  const own = join(folder, 'publish');
  const host = await hostWith(own);
  const { outcome, keeper } = begin(host);
  const pid = await keeper;
  const below = await soon('a VMM', () => oneOrMore(vmmsBelow(pid)));
  await soon('a snapshot that is written', () => isPublishing(own) || listSnapshots(own).length > 0);
  await kill(pid, below);
  // Its VM may have been ready before its snapshot was published.
  const lost = await outcome.then((vm) =>
    vm instanceof Error ? vm : vm.exec(request('true'), limit()).catch((error: unknown) => error),
  );
  expect(lost).toMatchObject({ code: 'vm/lost' });
  const hasOne = listSnapshots(own).length > 0;
  for (const start of [hasOne ? 'snapshot' : 'cold', 'snapshot']) {
    const vm = await launch(host);
    expect(vm.facts).toMatchObject({ start, startNote: null });
    await expect.poll(() => listSnapshots(own)).toHaveLength(1);
    await expectWorks(vm);
  }
  expect(leftoversIn(own)).toEqual([]);
});

function oneOrMore<T>(found: readonly T[]): readonly T[] | null {
  return found.length > 0 ? found : null;
}
