/**
 * The memory that QEMU uses in addition to its guest's memory after a large program has run: admission counts with it.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, it } from 'vitest';
import { readRunDir, vmRunDir } from '../native/index.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { follow, limit, script } from '../test/conformance/sandbox/behaviour.ts';
import { createRealHost, SMALL_VM } from '../test/conformance/sandbox/real-host.ts';
import { VM_OVERHEAD_MIB, type Accelerator } from './micro-vm/qemu/vm-overhead.ts';

/** No other mapping of QEMU has this size. */
const GUEST_MIB = 640;
const KEY = { runId: 'overhead', scope: 'vm', instance: [], generation: 0 };
/**
 * The admitted overhead when the cache of translated code was 64 MiB. If QEMU stays below it, the larger cache was not
 * used.
 */
const OVERHEAD_WITH_A_SMALL_CACHE_MIB = 160;

it(
  'is less than what VMs are admitted with, and comes near it when code is translated',
  { timeout: 240_000 },
  async () => {
    const pieces = await resolveHostPieces(readEnvironment(), { install: true });
    const host = await createRealHost(pieces);
    // This is asserted after the block: within it, a failure here would hide the first one.
    let left: readonly string[];
    try {
      // The largest static program at hand: 150 MB of Go.
      const mounts = [{ hostPath: dirname(pieces.temporalCli), guestPath: '/data', mode: 'ro' as const }];
      const sandbox = await host.backend.launch(KEY, { ...SMALL_VM, memoryMib: GUEST_MIB, mounts }, limit());
      const accelerator = sandbox.facts.accelerator as Accelerator;
      const program = `/data/${pieces.temporalCli.slice(dirname(pieces.temporalCli).length + 1)}`;
      const ran = await follow(
        await sandbox.exec(
          script(`for i in 1 2 3; do ${program} --version || exit 1; done`, { timeoutMs: 110_000 }),
          limit(),
        ),
      );
      expect(ran.exit).toMatchObject({ reason: 'exited', exitCode: 0 });
      const { pid } = await readRunDir(pieces.keeper, vmRunDir(host.vmsDir, KEY));
      const besideMib = mebibytesBesideGuest(qemuBelow(pid as number)) + mebibytesBesideGuest(pid as number);
      console.log(`QEMU and its keeper take ${Math.round(besideMib)} MiB beside the guest's memory (${accelerator})`);
      expect(besideMib).toBeLessThan(VM_OVERHEAD_MIB[accelerator]);
      expect(besideMib).toBeGreaterThan(accelerator === 'tcg' ? OVERHEAD_WITH_A_SMALL_CACHE_MIB : 0);
      await sandbox.stop();
    } finally {
      left = await host.dispose();
    }
    expect(left).toEqual([]);
  },
);

function qemuBelow(keeperPid: number): number {
  const parents = new Map<number, number>();
  const found: number[] = [];
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
      if (stat.includes('(qemu-system')) found.push(Number(name));
    } catch {
      // The process ended while /proc was listed.
    }
  }
  const isBelow = (pid: number | undefined): boolean =>
    pid === keeperPid || (pid !== undefined && pid > 1 && isBelow(parents.get(pid)));
  const qemu = found.find(isBelow);
  if (qemu === undefined) throw new Error(`no QEMU below the keeper ${keeperPid}`);
  return qemu;
}

/** Returns the proportional resident memory of all mappings except the guest's. @source proc_pid_smaps(5) */
function mebibytesBesideGuest(pid: number): number {
  let kib = 0;
  let isGuest = false;
  for (const line of readFileSync(`/proc/${pid}/smaps`, 'utf8').split('\n')) {
    const range = /^([0-9a-f]+)-([0-9a-f]+) /.exec(line);
    if (range !== null)
      isGuest =
        Number.parseInt(range[2] as string, 16) - Number.parseInt(range[1] as string, 16) === GUEST_MIB * 1024 * 1024;
    else if (!isGuest && line.startsWith('Pss:')) kib += Number(line.split(/\s+/)[1]);
  }
  return kib / 1024;
}
