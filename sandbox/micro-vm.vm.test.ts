/**
 * The conformance table on real VMs: the whole table on Debian's kernel, and the smoke set on Voidbox's kernel if it is
 * built.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { SandboxBackend } from '../activities/ports/sandbox.ts';
import type { VmStartKind } from '../domain/run/event.ts';
import { formatVmKey } from '../domain/run/vm-key.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces, SetupError } from '../setup/resolve.ts';
import type { HostPieces } from '../setup/pieces/host-pieces.ts';
import { BEHAVIOURS, SMOKE, type Behaviour } from '../test/conformance/sandbox.ts';
import { createRealHost, type RealHost } from '../test/conformance/sandbox/real-host.ts';
import { createConformanceRig, type ConformanceRig } from '../test/conformance/sandbox/rig.ts';

const environment = readEnvironment();
const debian = await resolveHostPieces(environment, { install: true, kernelKind: 'debian' });
const voidbox = await resolveHostPieces(environment, { install: false, kernelKind: 'voidbox' }).catch(
  (error: unknown) => {
    if (error instanceof SetupError) return null;
    throw error;
  },
);

/** Fewer VMs may all boot: one row without the others starts only some. */
const FEW_VMS = 10;

conforms(`Debian's kernel ${debian.kernel.version}: the whole table`, debian, BEHAVIOURS);
// If VOIDBOX_KERNEL names a kernel, both calls return that kernel, which is not the kernel of Voidbox.
if (voidbox === null || voidbox.kernel.path === debian.kernel.path)
  console.log('Our kernel is not built (npm run kernel), so its smoke set does not run.');
else conforms(`our kernel ${voidbox.kernel.version}: the smoke set`, voidbox, SMOKE);

function watchStarts(backend: SandboxBackend, starts: Map<string, VmStartKind>): SandboxBackend {
  return {
    ...backend,
    async launch(key, spec, signal) {
      const vm = await backend.launch(key, spec, signal);
      starts.set(formatVmKey(key), vm.facts.start);
      return vm;
    },
  };
}

function conforms(title: string, pieces: HostPieces, behaviours: readonly Behaviour[]): void {
  describe(title, () => {
    let host: RealHost;
    let rig: ConformanceRig;
    /** How each VM started. */
    const starts = new Map<string, VmStartKind>();
    beforeAll(async () => {
      host = await createRealHost(pieces);
      rig = await createConformanceRig(watchStarts(host.backend, starts), 'qemu');
    });
    afterEach(() => rig.clear());
    afterAll(async () => {
      await rig.dispose();
      expect(await host.dispose(), 'VMs that a row left behind').toEqual([]);
      const restored = [...starts.values()].filter((start) => start === 'snapshot');
      // The first VM of a size boots, and so does a VM whose copy was too slow on a busy machine.
      if (environment.snapshots !== null && starts.size >= FEW_VMS)
        expect(restored.length, `of ${starts.size} VMs start from a snapshot`).toBeGreaterThan(starts.size / 2);
    });

    it.for(behaviours.map((behaviour) => [behaviour.name, behaviour] as const))(
      '%s',
      { timeout: 240_000 },
      async ([, behaviour]) => {
        await behaviour.run(rig);
      },
    );
  });
}
