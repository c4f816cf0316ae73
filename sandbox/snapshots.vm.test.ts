/** VMs that start from a snapshot: what makes each one a machine of its own, and what a damaged snapshot costs. */
import {
  closeSync,
  existsSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { LaunchSpec, Sandbox } from '../activities/ports/sandbox.ts';
import { readHostFacts } from '../native/index.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { limit, request, textOf } from '../test/conformance/sandbox/behaviour.ts';
import { changeInside } from '../test/rig/vms/snapshot-folder.ts';
import { SmallDisk } from '../test/rig/vms/small-disk.ts';
import { createRealHost, type RealHost, SMALL_VM } from '../test/conformance/sandbox/real-host.ts';

/** A size that no other test has, so that this file makes its own snapshot. */
const VM: LaunchSpec = { ...SMALL_VM, memoryMib: 160 };

let folder: string;
let host: RealHost;
let count = 0;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-snapshots-'));
  const pieces = await resolveHostPieces(readEnvironment(), { install: true });
  host = await createRealHost(pieces, { snapshots: { dir: join(folder, 'snapshots'), maxMib: 1024 } });
});
afterAll(async () => {
  const left = await host.dispose();
  rmSync(folder, { recursive: true, force: true });
  if (left.length > 0) throw new Error(`VMs are left: ${left.join(', ')}`);
});

async function launch(spec: LaunchSpec = VM): Promise<Sandbox> {
  const key = { runId: 'snapshots', scope: `vm-${(count += 1)}`, instance: [], generation: 0 };
  return await host.backend.launch(key, spec, limit());
}

/** The names of complete snapshots. */
function listSnapshots(): readonly string[] {
  return readdirSync(join(folder, 'snapshots')).filter((name) => !name.startsWith('.'));
}

/** The keeper publishes a snapshot beside the first VM's work. */
async function makeSnapshot(): Promise<string> {
  const vm = await launch();
  expect(vm.facts).toMatchObject({ start: 'cold', snapshot: null, startNote: null });
  await expect.poll(listSnapshots).toHaveLength(1);
  await vm.stop();
  return listSnapshots()[0]!;
}

const IDENTITY = [
  'cat /proc/sys/kernel/random/boot_id',
  'cat /proc/sys/kernel/random/uuid',
  'head -c 16 /dev/urandom | od -An -tx1',
  'date +%s',
  'cut -d" " -f1 /proc/uptime',
  'ls /workspace /tmp | grep -c planted || true',
].join('\n');

it('two VMs of one snapshot have their own random numbers, ids, disks and time', async () => {
  const key = await makeSnapshot();
  const record = JSON.parse(readFileSync(join(folder, 'snapshots', key, 'snapshot.json'), 'utf8')) as {
    createdAtMs: number;
  };
  const seen: string[][] = [];
  for (const diskMib of [64, 256]) {
    const launchedAtMs = Date.now();
    const vm = await launch({ ...VM, diskMib });
    expect(vm.facts).toMatchObject({ start: 'snapshot', snapshot: key, startNote: null });
    const askedAtMs = Date.now();
    const lines = (await textOf(vm, request('sh', ['-c', IDENTITY]))).trim().split('\n');
    const guestMs = Number(lines[3]) * 1000;
    expect(guestMs).toBeGreaterThan(askedAtMs - 2000);
    expect(guestMs).toBeLessThan(Date.now() + 1000);
    // A guest that had booted for this launch would be younger than its launch.
    const uptimeMs = Number(lines[4]) * 1000;
    expect(uptimeMs).toBeGreaterThan(0);
    expect(record.createdAtMs).toBeLessThan(launchedAtMs);
    expect(lines[5]).toBe('0');
    const size = await textOf(vm, request('sh', ['-c', 'df -k /workspace | tail -1 | tr -s " " | cut -d" " -f2']));
    expect(Number(size) / 1024).toBeGreaterThan(diskMib * 0.8);
    expect(Number(size) / 1024).toBeLessThanOrEqual(diskMib);
    await textOf(vm, request('sh', ['-c', 'touch /workspace/planted /tmp/planted']));
    await vm.stop();
    seen.push(lines.slice(0, 3));
  }
  for (const [index, value] of seen[0]!.entries()) expect(seen[1]![index]).not.toBe(value);
});

/** The byte with which Linux fills its start code and the initramfs when it frees them. */
const FREED = 0xcc;
const PAGE_BYTES = 4096;

it('a snapshot contains few pages that its kernel has freed', () => {
  const memory = readFileSync(join(folder, 'snapshots', listSnapshots()[0]!, 'memory'));
  const freed = Buffer.alloc(PAGE_BYTES, FREED);
  let pages = 0;
  for (let at = 0; at < memory.length; at += PAGE_BYTES)
    if (memory.subarray(at, at + PAGE_BYTES).equals(freed)) pages += 1;
  expect(memory.length).toBe(VM.memoryMib * 2 ** 20);
  expect((pages * PAGE_BYTES) / 2 ** 20).toBeLessThan(8);
});

it('the record of a snapshot describes the CPU of the host only if the guest runs on it', async () => {
  const [key] = listSnapshots();
  const { parts } = JSON.parse(readFileSync(join(folder, 'snapshots', key!, 'snapshot.json'), 'utf8')) as {
    parts: Record<string, unknown>;
  };
  const { kvm } = await readHostFacts(host.pieces.keeper);
  const [vendor] = /(?<=^vendor_id\s*: ).*$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))!;
  const { vmm, hostCpu, cpuFeatures, kvmModules } = parts;
  const found = [
    vmm,
    String(hostCpu).split(' ')[0],
    String(cpuFeatures).split(' ').includes('sse2'),
    typeof kvmModules,
  ];
  expect(found).toEqual(
    kvm === 'hardware' ? ['qemu kvm', vendor, true, 'string'] : ['qemu tcg', 'null', false, 'object'],
  );
});

/** The processes of the VMs of this file that start from a snapshot: each VMM, and its jail. */
function listVmms(): readonly string[] {
  const keepers = new Set(
    readdirSync(host.vmsDir)
      .map((name) => join(host.vmsDir, name, 'keeper.json'))
      .filter((file) => existsSync(file))
      .map((file) => String((JSON.parse(readFileSync(file, 'utf8')) as { pid: number }).pid)),
  );
  const isBelow = (pid: string): boolean => keepers.has(pid) || (Number(pid) > 1 && isBelow(parentOf(pid)));
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => commandOf(pid).includes('-incoming') && isBelow(pid));
}

/** The paths of what the VMMs have open. */
function listDescriptors(): readonly string[] {
  return listVmms().flatMap((pid) => readdirSync(`/proc/${pid}/fd`).map((fd) => `/proc/${pid}/fd/${fd}`));
}

function findSealedMemory(): readonly { readonly path: string; readonly inode: number }[] {
  return listDescriptors()
    .filter((path) => targetOf(path).startsWith('/memfd:voidbox-snapshot'))
    .map((path) => ({ path, inode: statSync(path).ino }));
}

it('a VMM can change nothing of the snapshot from which it started', async () => {
  const vm = await launch();
  expect(vm.facts.start).toBe('snapshot');
  const open = listDescriptors().map(targetOf);
  expect(open.length).toBeGreaterThan(0);
  expect(open.filter((target) => target.includes(folder))).toEqual([]);
  const memory = findSealedMemory();
  expect(memory).not.toEqual([]);
  for (const { path } of memory) {
    const file = openSync(path, 'r+');
    try {
      for (const change of [
        () => writeSync(file, 'changed', 0),
        () => ftruncateSync(file, 0),
        () => ftruncateSync(file, 1 << 30),
      ])
        expect(change).toThrow(expect.objectContaining({ code: 'EPERM' }));
    } finally {
      closeSync(file);
    }
  }
  await vm.stop();
});

it('a VM whose plan asks for a boot uses no snapshot and makes none', async () => {
  const other = { ...VM, memoryMib: 168 };
  for (const spec of [VM, other]) {
    const before = listSnapshots();
    const vm = await launch({ ...spec, start: 'cold' });
    expect(vm.facts).toMatchObject({ start: 'cold', snapshot: null, startNote: null });
    expect(await textOf(vm, request('echo', ['works']))).toBe('works');
    await vm.stop();
    expect(listSnapshots()).toEqual(before);
  }
});

/** The memories that VMs use now, of which each VMM has more than one descriptor. */
function listMemories(): readonly number[] {
  return [...new Set(findSealedMemory().map(({ inode }) => inode))];
}

it('VMs of a snapshot share its memory as long as one of them lives, whichever it is', async () => {
  await expect.poll(listMemories).toEqual([]);
  const first = await launch();
  const memories = listMemories();
  expect(memories).toHaveLength(1);
  const second = await launch();
  expect(listMemories()).toEqual(memories);
  await first.stop();
  const third = await launch();
  await second.stop();
  expect(listMemories()).toEqual(memories);
  await third.stop();
  await expect.poll(listMemories).toEqual([]);
  const fourth = await launch();
  expect(fourth.facts).toMatchObject({ start: 'snapshot', startNote: null });
  expect(await textOf(fourth, request('echo', ['works']))).toBe('works');
  await fourth.stop();
});

it('a snapshot that QEMU cannot read costs a boot each time, and is deleted after the second', async () => {
  const [key] = listSnapshots();
  changeInside(join(folder, 'snapshots', key!), 'state', (bytes) => bytes.fill(0xff, 0, 4096));
  for (let attempt = 1; attempt <= 2; attempt++) {
    const vm = await launch();
    expect(vm.facts).toMatchObject({ start: 'cold', startNote: expect.stringContaining(`snapshot ${key}`) });
    expect(await textOf(vm, request('echo', ['works']))).toBe('works');
    await vm.stop();
    expect(listSnapshots()).toEqual(attempt === 1 ? [key] : []);
  }
});

/** Begins the launch of a VM that makes a snapshot in an empty folder, and waits until its keeper has prepared the file. */
async function beginSnapshot(dir: string): Promise<{ readonly own: RealHost; readonly launching: Promise<Sandbox> }> {
  const own = await createRealHost(host.pieces, { snapshots: { dir, maxMib: 1024 } });
  const key = { runId: 'first', scope: 'maker', instance: [], generation: 0 };
  const launching = own.backend.launch(key, VM, limit());
  await expect.poll(() => stateBytesOf(dir), { interval: 5 }).not.toBeNull();
  return { own, launching };
}

/** The bytes of the state that is being written; null before its file exists. */
function stateBytesOf(dir: string): number | null {
  try {
    const partial = readdirSync(dir).find((name) => name.startsWith('.new-'));
    return partial === undefined ? null : statSync(join(dir, partial, 'state')).size;
  } catch {
    return null;
  }
}

it.each([
  ['nothing', 0.1],
  ['the state and not the memory', 20],
])(
  'a disk that gets full in the middle, with room for %s, costs the snapshot, not the VM, and the reason is named',
  async (_what, leftMib) => {
    using disk = new SmallDisk(join(folder, `small-${leftMib}`), 1400);
    const dir = join(folder, `small-${leftMib}`, 'snapshots');
    const { own, launching } = await beginSnapshot(dir);
    disk.shrinkTo(leftMib);
    const vm = await launching;
    expect(vm.facts).toMatchObject({ start: 'cold', startNote: expect.stringContaining('No space left on device') });
    expect(await textOf(vm, request('echo', ['works']))).toBe('works');
    await vm.stop();
    expect(readdirSync(dir).filter((name) => !name.startsWith('.lock-'))).toEqual([]);
    expect(await own.dispose()).toEqual([]);
  },
);

/** Returns once a keeper writes its state. On a busy machine a keeper can be faster than this test, which then tries again. */
async function catchWriter(dir: string): ReturnType<typeof beginSnapshot> {
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const { own, launching } = await beginSnapshot(dir);
    let isReady = false;
    // The launch fails once its keeper is killed.
    void launching.then(
      () => (isReady = true),
      () => undefined,
    );
    while (!isReady) {
      if ((stateBytesOf(dir) ?? 0) > 0) return { own, launching };
      await sleep(1);
    }
    await own.dispose();
    rmSync(dir, { recursive: true });
  }
  throw new Error('five keepers wrote their state between two looks of this test');
}

it('a keeper that is killed while it writes leaves nothing that counts, and the next VM makes the snapshot', async () => {
  const dir = join(folder, 'killed');
  const { own, launching } = await catchWriter(dir);
  // The launch fails while this test still looks for the keeper's pid.
  const failed = launching.then(
    () => null,
    (error: unknown) => error,
  );
  const [runDir] = readdirSync(own.vmsDir).filter((name) => !name.startsWith('.'));
  const { pid } = JSON.parse(readFileSync(join(own.vmsDir, runDir!, 'keeper.json'), 'utf8')) as { pid: number };
  process.kill(pid, 'SIGKILL');
  expect(await failed).toMatchObject({ code: 'vm/lost' });
  for (const start of ['cold', 'snapshot']) {
    const key = { runId: 'next', scope: start, instance: [], generation: 0 };
    const vm = await own.backend.launch(key, VM, limit());
    expect(vm.facts).toMatchObject({ start, startNote: null });
    await expect.poll(() => readdirSync(dir).filter((name) => !name.startsWith('.'))).toHaveLength(1);
    await vm.stop();
  }
  expect(readdirSync(dir).filter((name) => name.startsWith('.new-'))).toEqual([]);
  expect(await own.dispose()).toEqual([]);
});

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

function parentOf(pid: string): string {
  try {
    return /^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]!;
  } catch {
    return '0';
  }
}

function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    return '';
  }
}
