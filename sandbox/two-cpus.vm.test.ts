/** Clocks of guests with two virtual CPUs on a host whose CPUs are overloaded. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { Sandbox } from '../activities/ports/sandbox.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { follow, limit, request, script, textOf } from '../test/conformance/sandbox/behaviour.ts';
import { createRealHost, SMALL_VM } from '../test/conformance/sandbox/real-host.ts';

const VMS = 2;
const BUSY_SECONDS = 12;
/** A clock that has lost the TSC would fall behind by seconds in this time. */
const TOLERANCE_MS = 500;
const HOST_CLOCK = '/sys/devices/system/clocksource/clocksource0/current_clocksource';

interface Sample {
  readonly guestMs: number;
  /** The host's time before and after the guest read its clock. */
  readonly fromMs: number;
  readonly toMs: number;
}

async function sample(sandbox: Sandbox): Promise<Sample> {
  const fromMs = performance.now();
  const uptime = await textOf(sandbox, request('cat', ['/proc/uptime']));
  return { guestMs: Number(uptime.split(' ')[0]) * 1_000, fromMs, toMs: performance.now() };
}

it('run as fast as the host’s, by the host’s TSC where that one is trusted', { timeout: 240_000 }, async () => {
  const host = await createRealHost(await resolveHostPieces(readEnvironment(), { install: true }));
  const isTrusted = readFileSync(HOST_CLOCK, 'utf8').trim() === 'tsc';
  // This is asserted after the block: within it, a failure here would hide the first one.
  let left: readonly string[];
  try {
    await Promise.all(
      Array.from({ length: VMS }, async (_, vm) => {
        const sandbox = await host.backend.launch(
          { runId: 'clocks', scope: `vm-${vm}`, instance: [], generation: 0 },
          { ...SMALL_VM, vcpus: 2 },
          limit(),
        );
        const { accelerator } = sandbox.facts;
        expect(await textOf(sandbox, request('nproc'))).toBe('2');
        const before = await sample(sandbox);
        const busy = 'while :; do :; done';
        const spin = script(
          `timeout ${BUSY_SECONDS} sh -c '${busy}' & timeout ${BUSY_SECONDS} sh -c '${busy}' & sleep ${BUSY_SECONDS}; wait; true`,
        );
        expect((await follow(await sandbox.exec(spin, limit()))).exit).toMatchObject({ reason: 'exited', exitCode: 0 });
        const after = await sample(sandbox);
        const passedMs = after.guestMs - before.guestMs;
        expect(passedMs, 'the guest’s clock is slow').toBeGreaterThan(after.fromMs - before.toMs - TOLERANCE_MS);
        expect(passedMs, 'the guest’s clock is fast').toBeLessThan(after.toMs - before.fromMs + TOLERANCE_MS);
        const commandLine = await textOf(sandbox, request('cat', ['/proc/cmdline']));
        const isTold = isTrusted && accelerator === 'tcg';
        expect(commandLine.includes(' tsc=reliable')).toBe(isTold);
        const clock = await textOf(sandbox, request('cat', [HOST_CLOCK]));
        expect(clock, 'a guest that was told so has kept it').toBe(isTold ? 'tsc' : clock);
        await sandbox.stop();
      }),
    );
  } finally {
    left = await host.dispose();
  }
  expect(left).toEqual([]);
});
