/** VMs from checkpoints beyond the conformance table: the layer over a root image, many VMs at once, warm starts. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Buffer } from 'node:buffer';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { LaunchSpec, Sandbox } from '../activities/ports/sandbox.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces, resolveOptionalPieces } from '../setup/resolve.ts';
import { chunks, limit, request, script, textOf } from '../test/conformance/sandbox/behaviour.ts';
import { createRealHost, type RealHost, SMALL_VM } from '../test/conformance/sandbox/real-host.ts';
import { vmRunDir } from '../native/index.ts';
import { SmallDisk } from '../test/rig/vms/small-disk.ts';
import { deleteCheckpoint } from './checkpoints/folder.ts';

/** The limit includes downloading and making the disk of `image: dev`. */
const SETUP_LIMIT_MS = 1_200_000;
const DEV: LaunchSpec = { ...SMALL_VM, memoryMib: 384, diskMib: 256, image: { kind: 'dev' } };
const VMS = 20;
/** VMs that start at the same time; each boots on a CPU of the host. */
const STARTS = 4;

let host: RealHost;
let folder: string;
let keys = 0;
const running: Sandbox[] = [];

beforeAll(async () => {
  const environment = readEnvironment();
  host = await createRealHost(await resolveHostPieces(environment, { install: true }));
  await resolveOptionalPieces(environment, ['dev'], { install: true });
}, SETUP_LIMIT_MS);
afterAll(async () => {
  const left = await host.dispose();
  if (left.length > 0) throw new Error(`VMs are left: ${left.join(', ')}`);
});
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'voidbox-checkpoints-'));
});
afterEach(async () => {
  for (const sandbox of running.splice(0)) await sandbox.stop();
  await rm(folder, { recursive: true, force: true });
});

async function launch(spec: LaunchSpec): Promise<Sandbox> {
  const key = { runId: `checkpoints-${process.pid}`, scope: `vm-${(keys += 1)}`, instance: [], generation: 0 };
  const sandbox = await host.backend.launch(key, spec, limit());
  running.push(sandbox);
  return sandbox;
}

test('a checkpoint has the layer over the root image, and its VMs have their own files of the agent', async () => {
  const dir = join(folder, 'saved');
  const source = await launch(DEV);
  await source.writeFile('/srv/made/file', 4, chunks(Buffer.from('kept')), limit());
  await textOf(
    source,
    script('python3 -m venv --without-pip /workspace/env && /workspace/env/bin/python -c "print(1)"'),
  );
  await source.checkpoint({ dir, withSecrets: false }, limit());
  await source.stop();

  const clone = await launch({ ...DEV, from: dir });
  expect(await textOf(clone, request('cat', ['/srv/made/file']))).toBe('kept');
  expect(await textOf(clone, request('/workspace/env/bin/python', ['-c', 'print(6 * 7)']))).toBe('42');
  expect(await textOf(clone, script('/usr/lib/voidbox/mock-agent --version >/dev/null 2>&1; echo $?'))).not.toBe('127');
  expect(await textOf(clone, script('stat -c %u:%a / /usr/lib/voidbox'))).toBe('0:755\n0:755');

  const { image: _, ...base } = DEV;
  await expect(launch({ ...base, from: dir })).rejects.toMatchObject({
    code: 'vm/checkpoint-unfit',
    message: expect.stringMatching(/its image is dev-[0-9a-f]+, that of the VM is base/),
  });
}, 240_000);

test('a VM with the disk of a checkpoint starts from a snapshot as other VMs do', async () => {
  const dir = join(folder, 'saved');
  const source = await launch(SMALL_VM);
  await source.checkpoint({ dir, withSecrets: false }, limit());
  const { facts } = await launch({ ...SMALL_VM, from: dir, diskMib: 128 });
  expect(facts).toMatchObject({ start: 'snapshot', startNote: null });
}, 120_000);

test('a disk without room for a copy costs the checkpoint, and its VM continues', async () => {
  const place = join(folder, 'small');
  using _disk = new SmallDisk(place, 96);
  const source = await launch({ ...SMALL_VM, diskMib: 128 });
  await textOf(source, script('dd if=/dev/urandom of=/workspace/data bs=1M count=40 2>&1 && sync'));
  await expect(source.checkpoint({ dir: join(place, 'saved'), withSecrets: false }, limit())).rejects.toMatchObject({
    message: expect.stringMatching(/no space left for a copy of \d+ MiB: \d+ MiB are free, and 64 MiB stay free/),
  });
  expect(readdirSync(place)).toEqual([]);
  expect(await textOf(source, script('echo works > /workspace/later; cat /workspace/later'))).toBe('works');
}, 120_000);

test('a keeper that is killed while it copies a disk leaves nothing, and the earlier checkpoint is whole', async () => {
  const [earlier, later] = [join(folder, 'earlier'), join(folder, 'later')];
  const spec = { ...SMALL_VM, diskMib: 256 };
  const source = await launch(spec);
  const sum = await textOf(
    source,
    script('dd if=/dev/urandom of=/workspace/data bs=1M count=120 2>/dev/null && sync && sha256sum < /workspace/data'),
  );
  await source.checkpoint({ dir: earlier, withSecrets: false }, limit());
  const failed = source.checkpoint({ dir: later, withSecrets: false }, limit()).catch((error: unknown) => error);
  await expect.poll(() => readdirSync(folder).filter(hasBegunDisk), { interval: 1 }).toHaveLength(1);
  const key = { runId: `checkpoints-${process.pid}`, scope: `vm-${keys}`, instance: [], generation: 0 };
  const { pid } = JSON.parse(readFileSync(join(vmRunDir(host.vmsDir, key), 'keeper.json'), 'utf8')) as { pid: number };
  process.kill(pid, 'SIGKILL');
  expect(await failed).toMatchObject({ code: 'vm/lost' });
  expect(readdirSync(folder)).toEqual(['earlier']);
  running.length = 0;
  const next = await launch({ ...spec, from: earlier });
  expect(await textOf(next, script('sha256sum < /workspace/data'))).toBe(sum);
}, 180_000);

/** Whether the keeper copies into this folder now. */
function hasBegunDisk(name: string): boolean {
  return (
    name.endsWith('.partial') && readdirSync(join(folder, name)).length > 0 && !existsSync(join(folder, name, 'disk'))
  );
}

test(`${VMS} VMs run from one checkpoint at once, each with its own writes, also after its deletion`, async () => {
  const dir = join(folder, 'saved');
  const spec = { ...SMALL_VM, memoryMib: 128 };
  const source = await launch(spec);
  await textOf(source, script('dd if=/dev/urandom of=/workspace/data bs=1M count=8 2>&1 && sync'));
  const sum = await textOf(source, script('sha256sum < /workspace/data'));
  await source.checkpoint({ dir, withSecrets: false }, limit());
  await source.stop();
  running.length = 0;

  const vms: Sandbox[] = [];
  for (let first = 0; first < VMS; first += STARTS)
    vms.push(...(await Promise.all(Array.from({ length: STARTS }, () => launch({ ...spec, from: dir })))));
  await deleteCheckpoint(dir);
  expect(readdirSync(folder)).toEqual([]);
  for (const [index, vm] of vms.entries()) {
    expect(await textOf(vm, script(`echo ${index} > /workspace/own; sha256sum < /workspace/data`)), `${index}`).toBe(
      sum,
    );
  }
  for (const [index, vm] of vms.entries()) expect(await textOf(vm, script('cat /workspace/own'))).toBe(String(index));
}, 400_000);
