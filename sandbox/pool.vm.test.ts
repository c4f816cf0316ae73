/** A VM of QEMU that waits, and the launch that takes it. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { kill } from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { LaunchSpec } from '../activities/ports/sandbox.ts';
import { askVmStatus, POOL_PREFIX, readRunDir, vmRunDir } from '../native/index.ts';
import { createLauncher, type LaunchVm } from './micro-vm/launch.ts';
import { withQemu } from './micro-vm/qemu/backend.ts';
import { createWarmVms, type WarmVms } from './warm-vms.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { limit, request, textOf } from '../test/conformance/sandbox/behaviour.ts';
import { createRealHost, type RealHost, SMALL_VM } from '../test/conformance/sandbox/real-host.ts';

/** A size that no other test has, so that this file makes its own snapshot. */
const VM: LaunchSpec = { ...SMALL_VM, memoryMib: 176 };

let folder: string;
let host: RealHost;
let launchVm: LaunchVm;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-pool-'));
  const pieces = await resolveHostPieces(readEnvironment(), { install: true });
  const snapshots = { dir: join(folder, 'snapshots'), maxMib: 1024 };
  host = await createRealHost(pieces, { snapshots });
  launchVm = createLauncher(
    withQemu({
      vmsDir: host.vmsDir,
      keeper: pieces.keeper,
      pieces: async () => pieces,
      extra: async (name) => {
        throw new Error(`no VM of this test has ${name}`);
      },
      hostMemoryMib: () => Math.floor(totalmem() / 2 ** 20),
      snapshots,
    }),
  );
});
afterAll(async () => {
  const left = await host.dispose();
  rmSync(folder, { recursive: true, force: true });
  if (left.length > 0) throw new Error(`VMs are left: ${left.join(', ')}`);
});

/** Returns the state of a keeper; null if none answers. */
async function stateOf(dir: string): Promise<string | null> {
  return await askVmStatus(dir, limit()).then(
    (status) => status.state,
    () => null,
  );
}

it('a launch continues a VM that waited, with its own disk and the time of the host', async () => {
  const dir = join(host.vmsDir, 'pool-a');
  const waiting = await launchVm(
    { name: 'pool-a', dir, what: 'a VM that waits', spec: VM, extra: { waits: true } },
    limit(),
  );
  await expect.poll(() => stateOf(dir), { timeout: 60_000 }).toBe('waiting');
  const key = { runId: 'pool', scope: 'vm', instance: [], generation: 0 };
  const vm = await host.backend.launch(key, { ...VM, diskMib: 512 }, limit());
  waiting.vm.close();
  expect(existsSync(dir)).toBe(false);
  expect(vm.facts).toMatchObject({ start: 'snapshot', startNote: null, pooled: true });
  expect((await askVmStatus(vmRunDir(host.vmsDir, key), limit())).start.pooled).toBe(true);
  const fromMs = Date.now();
  const lines = (await textOf(vm, request('sh', ['-c', 'date +%s; df -m /workspace | tail -1']))).trim().split('\n');
  // `date` cuts a second off.
  expect(Number(lines[0]) * 1000).toBeGreaterThan(fromMs - 2_000);
  expect(Number(lines[0]) * 1000).toBeLessThan(Date.now() + 1_000);
  // The file system grew from 64 MiB to the disk of the launch.
  expect(Number(lines[1]!.split(/\s+/)[1])).toBeGreaterThan(400);
  await vm.stop();
});

function createPool(identify = (): Promise<string> => Promise.resolve('files')): WarmVms {
  const shape = { image: 'base', layers: [], memoryMib: VM.memoryMib, vcpus: 1 } as const;
  const log = (text: string): never => {
    throw new Error(text);
  };
  return createWarmVms({
    counts: [{ shape, count: 1 }],
    vmsDir: host.vmsDir,
    launch: launchVm,
    isDiskLow: () => false,
    identify,
    log,
  });
}

function listPool(): readonly string[] {
  return readdirSync(host.vmsDir)
    .filter((name) => name.startsWith(POOL_PREFIX))
    .map((name) => join(host.vmsDir, name));
}

it('a pool adds a VM for the one that was taken, waits after a launch, and ends what is left', async () => {
  const said: string[] = [];
  let nowMs = 0;
  const shape = { image: 'base', layers: [], memoryMib: VM.memoryMib, vcpus: 1 } as const;
  const pool = createWarmVms({
    counts: [{ shape, count: 1 }],
    vmsDir: host.vmsDir,
    launch: launchVm,
    isDiskLow: () => nowMs < 1_000,
    identify: () => Promise.resolve('files'),
    log: (text) => said.push(text),
    now: () => nowMs,
  });
  await pool.check();
  expect(listPool()).toEqual([]);
  nowMs = 1_000;
  await pool.check();
  const [first] = listPool();
  await expect.poll(() => stateOf(first!), { timeout: 60_000 }).toBe('waiting');
  await pool.check();
  expect(listPool()).toEqual([first]);
  const key = { runId: 'pool', scope: 'taken', instance: [], generation: 0 };
  pool.noteLaunch();
  const vm = await host.backend.launch(key, { ...VM, diskMib: 2_048 }, limit());
  expect(vm.facts).toMatchObject({ pooled: true, hadCommands: false, attached: false });
  await pool.check();
  expect(listPool()).toEqual([]);
  nowMs = 6_000;
  await pool.check();
  const [second] = listPool();
  expect(second).not.toBe(first);
  await expect.poll(() => stateOf(second!), { timeout: 60_000 }).toBe('waiting');
  await pool.close();
  await expect.poll(listPool).toEqual([]);
  expect((await textOf(vm, request('echo', ['it lives']))).trim()).toBe('it lives');
  await vm.stop();
  expect(said).toEqual([]);
});

it('a pool replaces a VM whose snapshot has files of an earlier build, and keeps it while a file is missing', async () => {
  let files: string | null = 'earlier';
  const pool = createPool(() => (files === null ? Promise.reject(new Error('no kernel')) : Promise.resolve(files)));
  await pool.check();
  const [first] = listPool();
  await expect.poll(() => stateOf(first!), { timeout: 60_000 }).toBe('waiting');
  files = null;
  await pool.check();
  expect(listPool()).toEqual([first]);
  files = 'later';
  await pool.check();
  await expect.poll(() => stateOf(first!)).toBeNull();
  await expect.poll(listPool).toHaveLength(1);
  const [second] = listPool();
  expect(second).not.toBe(first);
  await expect.poll(() => stateOf(second!), { timeout: 60_000 }).toBe('waiting');
  await pool.check();
  expect(listPool()).toEqual([second]);
  await pool.close();
  await expect.poll(listPool).toEqual([]);
});

it('two workers of a host keep their own VMs, and a launch takes one of either', async () => {
  const [first, second] = [createPool(), createPool()];
  await first.check();
  await second.check();
  const dirs = listPool();
  expect(dirs).toHaveLength(2);
  for (const dir of dirs) await expect.poll(() => stateOf(dir), { timeout: 60_000 }).toBe('waiting');
  const scopes = ['of-one', 'of-two', 'of-none'];
  const vms = await Promise.all(
    scopes.map(async (scope) => {
      const key = { runId: 'two', scope, instance: [], generation: 0 };
      return await host.backend.launch(key, { ...VM, diskMib: 2_048 }, limit());
    }),
  );
  expect(vms.filter(({ facts }) => facts.pooled === true)).toHaveLength(2);
  expect(listPool()).toEqual([]);
  await first.check();
  await second.check();
  expect(listPool()).toHaveLength(2);
  await first.close();
  await expect.poll(listPool).toHaveLength(1);
  await second.close();
  await expect.poll(listPool).toEqual([]);
  for (const vm of vms) {
    expect((await textOf(vm, request('echo', ['it lives']))).trim()).toBe('it lives');
    await vm.stop();
  }
});

it('a kill of the keeper or of the VMM at any moment of a take loses no VM of a scope', async () => {
  for (const victim of ['keeper', 'vmm'] as const)
    for (let step = 0; step < 5; step += 1) {
      const name = `pool-${victim}-${step}`;
      const dir = join(host.vmsDir, name);
      const what = { name, dir, what: name, spec: VM, extra: { waits: true } };
      const waiting = await launchVm(what, limit());
      await expect.poll(() => stateOf(dir), { timeout: 60_000 }).toBe('waiting');
      const { pid } = await readRunDir(host.pieces.keeper, dir);
      const vmm = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')[0];
      const key = { runId: 'kills', scope: name, instance: [], generation: 0 };
      const launched = host.backend.launch(key, VM, limit()).then(
        async (vm) => {
          await textOf(vm, request('echo', ['first']));
          await vm.stop();
        },
        (error: unknown) => error,
      );
      await sleep(step * 25);
      kill(victim === 'keeper' ? pid! : Number(vmm), 'SIGKILL');
      await launched.catch((error: unknown) => error);
      waiting.vm.close();
      // The next generation of the scope gets a VM, whatever the kill has hit.
      const next = await host.backend.launch({ ...key, generation: 1 }, VM, limit());
      expect((await textOf(next, request('echo', ['second']))).trim()).toBe('second');
      await next.stop();
      await host.backend.release(key);
      await expect.poll(() => stateOf(dir)).toBeNull();
    }
});
