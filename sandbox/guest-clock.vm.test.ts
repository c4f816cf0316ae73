/** The guest's clock shows the host's time, also after its VM was stopped, and no user of the guest can change it. */
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Sandbox } from '../activities/ports/sandbox.ts';
import { readRunDir, vmRunDir } from '../native/index.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { follow, limit, run, script, textOf } from '../test/conformance/sandbox/behaviour.ts';
import { createRealHost, SMALL_VM, type RealHost } from '../test/conformance/sandbox/real-host.ts';
import { PRINT_TIME } from '../test/rig/vms/guest-clock.ts';
import { SmallDisk } from '../test/rig/vms/small-disk.ts';

const DISK_MIB = 200;
/** The keeper checks its disk once a second, and twice a second while the disk is full. */
const FULL_MS = 6_000;
const STOOD_STILL_MS = 3_000;
const TOLERANCE_MS = 1_000;
const KEY = { runId: 'clock', scope: 'guest', instance: [], generation: 0 };

interface Sample {
  readonly timeMs: number;
  /** The time for which the guest has run. */
  readonly uptimeMs: number;
  /** The host's time before and after the guest read its clocks. */
  readonly fromMs: number;
  readonly toMs: number;
}

async function sample(sandbox: Sandbox): Promise<Sample> {
  const fromMs = Date.now();
  const text = await textOf(sandbox, script(`${PRINT_TIME}; cut -d ' ' -f 1 /proc/uptime`));
  const toMs = Date.now();
  const [time, uptime] = text.split('\n');
  return { timeMs: Number(time), uptimeMs: Number(uptime) * 1_000, fromMs, toMs };
}

function expectRight({ timeMs, fromMs, toMs }: Omit<Sample, 'uptimeMs'>): void {
  expect(timeMs, 'the guest’s clock is late').toBeGreaterThan(fromMs - TOLERANCE_MS);
  expect(timeMs, 'the guest’s clock is early').toBeLessThan(toMs + TOLERANCE_MS);
}

/** Returns a process and all its descendants. */
function familyOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  return [pid, ...children.flatMap(familyOf)];
}

describe('the guest’s clock', () => {
  let host: RealHost;
  let disk: SmallDisk;
  let sandbox: Sandbox;
  beforeAll(async () => {
    host = await createRealHost(await resolveHostPieces(readEnvironment(), { install: true }));
    disk = new SmallDisk(host.vmsDir, DISK_MIB);
    sandbox = await host.backend.launch(KEY, SMALL_VM, limit());
  }, 120_000);
  afterAll(async () => {
    await host.backend.release(KEY);
    disk[Symbol.dispose]();
    const left = await host.dispose();
    if (left.length > 0) throw new Error(`left behind: ${left.join(', ')}`);
  }, 300_000);

  it(
    'is right after the VM stood still for want of room, for commands that run and for new ones',
    { timeout: 120_000 },
    async () => {
      const before = await sample(sandbox);
      expectRight(before);
      const running = follow(
        await sandbox.exec(script(`until [ -e end ]; do sleep 0.1; done; ${PRINT_TIME}`), limit()),
      );
      disk.fill();
      await sleep(FULL_MS);
      disk.makeRoom();
      const after = await sample(sandbox);
      const stoodStillMs = after.fromMs - before.toMs - (after.uptimeMs - before.uptimeMs);
      expect(stoodStillMs, 'the VM stood still').toBeGreaterThan(STOOD_STILL_MS);
      expectRight(after);
      const log = await readFile(join(vmRunDir(host.vmsDir, KEY), 'keeper.log'), 'utf8');
      expect(log).toMatch(/^the guest's clock was [3-9]\d{3} ms late and is set$/m);
      const fromMs = Date.now();
      await textOf(sandbox, script('touch end'));
      const timeMs = Number((await running).stdout.toString());
      expectRight({ timeMs, fromMs, toMs: Date.now() });
    },
  );

  it(
    'is right after all processes of the VM were stopped, like the processes of a paused container',
    { timeout: 120_000 },
    async () => {
      const { pid } = await readRunDir(host.pieces.keeper, vmRunDir(host.vmsDir, KEY));
      const processes = familyOf(pid!);
      expect(processes.length, 'the keeper, its jail and QEMU').toBeGreaterThan(2);
      for (const member of processes) process.kill(member, 'SIGSTOP');
      await sleep(STOOD_STILL_MS);
      for (const member of processes) process.kill(member, 'SIGCONT');
      const after = await sample(sandbox);
      expectRight(after);
    },
  );

  it('is no matter of the guest’s users', { timeout: 300_000 }, async () => {
    const { stderr } = await run(sandbox, script('date -s @0'));
    expect(stderr.toString()).toContain("can't set date: Operation not permitted");
    expectRight(await sample(sandbox));
  });
});
