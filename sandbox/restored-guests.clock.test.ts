/** The clocks of two restored guests over ten minutes, beside a snapshot whose record is an hour old. `npm run test:clock` runs it. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { LaunchSpec, VmKey } from '../activities/ports/sandbox.ts';
import { vmRunDir } from '../native/index.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { limit } from '../test/conformance/sandbox/behaviour.ts';
import { createRealHost, SMALL_VM, type RealHost } from '../test/conformance/sandbox/real-host.ts';
import { driftOf, expectRightClock, followClock } from '../test/rig/vms/guest-clock.ts';
import { listSnapshots, makeOlder } from '../test/rig/vms/snapshot-folder.ts';

const LASTS_MS = 600_000;
const EVERY_MS = 5_000;
const HOUR_MS = 3_600_000;

let folder: string;
let host: RealHost;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-restored-clock-'));
  const pieces = await resolveHostPieces(readEnvironment(), { install: true });
  host = await createRealHost(pieces, { snapshots: { dir: join(folder, 'snapshots'), maxMib: 1024 } });
});
afterAll(async () => {
  const left = await host.dispose();
  rmSync(folder, { recursive: true, force: true });
  if (left.length > 0) throw new Error(`VMs are left: ${left.join(', ')}`);
});

const keyOf = (scope: string): VmKey => ({ runId: 'clock', scope, instance: [], generation: 0 });

/** The corrections of the keeper, as its log has them. */
function correctionsOf(key: VmKey): readonly string[] {
  const log = readFileSync(join(vmRunDir(host.vmsDir, key), 'keeper.log'), 'utf8');
  return log.split('\n').filter((line) => /^the guest's clock was .* and is set$/.test(line));
}

it('the clocks of two guests from a snapshot that is an hour old are right for ten minutes', async () => {
  const dir = join(folder, 'snapshots');
  const vms: readonly LaunchSpec[] = [1, 2].map((vcpus) => ({ ...SMALL_VM, vcpus }));
  for (const [index, vm] of vms.entries()) {
    const template = await host.backend.launch(keyOf(`template-${index}`), vm, limit());
    await expect.poll(() => listSnapshots(dir)).toHaveLength(index + 1);
    await template.stop();
  }
  for (const key of listSnapshots(dir)) makeOlder(join(dir, key), HOUR_MS);
  await Promise.all(
    vms.map(async (vm) => {
      const key = keyOf(`copy-${vm.vcpus}`);
      const copy = await host.backend.launch(key, vm, limit());
      expect(copy.facts).toMatchObject({ start: 'snapshot', startNote: null });
      const readings = await followClock(copy, { lastsMs: LASTS_MS, everyMs: EVERY_MS });
      const corrections = correctionsOf(key);
      await copy.stop();
      const { ms, overS } = driftOf(readings);
      const least = Math.min(...readings.map(({ mostMs }) => mostMs));
      const most = Math.max(...readings.map(({ leastMs }) => leastMs));
      const figures = `the latest reading ${Math.min(0, least)} ms, the earliest ${Math.max(0, most)} ms`;
      process.stdout.write(
        `${vm.vcpus} vCPUs: ${readings.length} readings in ${overS.toFixed(0)} s, proven drift ${ms} ms, ${figures}, corrections ${JSON.stringify(corrections)}\n`,
      );
      expect(overS).toBeGreaterThanOrEqual(LASTS_MS / 1_000);
      expectRightClock(readings);
    }),
  );
});
