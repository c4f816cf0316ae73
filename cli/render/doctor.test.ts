import { expect, test } from 'vitest';
import type { HostReport } from '../../setup/resolve.ts';
import { renderDoctor } from './doctor.ts';
import { PLAIN } from './style.ts';

const REPORT: HostReport = {
  system: { name: 'Debian 12', kernel: '6.1', cpus: 4, memoryTotalMib: 16_384, memoryFreeMib: 900 },
  kernelKind: 'voidbox',
  pieces: [],
  kvm: { kind: 'none', explanation: 'there is no /dev/kvm', remedy: null },
  isolation: { level: 'microvm', accelerator: 'tcg', explanation: 'emulated', remedy: null },
  isReady: true,
};
const TEMPORAL = { kind: 'embedded', address: null, namespace: 'default', uiUrl: null, problem: null } as const;
const DISK = { availableBytes: 2e9, sizeBytes: 4e9, floorBytes: 1e9, isLow: false };

function memoryLine(limitedBy: string | null): string | undefined {
  const vmMemory = { budgetMib: 3_276, totalMib: 4_096, availableMib: 3_000, limitedBy };
  const lines = renderDoctor(
    REPORT,
    TEMPORAL,
    { cacheDir: '/c', stateDir: '/s', disk: DISK, vmMemory, durability: 'process' },
    PLAIN,
  );
  return lines.find((line) => line.includes('VMs together'))?.trim();
}

test('what VMs may take is told with what limits it', () => {
  expect(memoryLine('/sys/fs/cgroup/a.service')).toBe(
    'memory     VMs together may take 3276 MiB (4096 MiB, the limit of the cgroup /sys/fs/cgroup/a.service, less a share for the host); 3000 MiB are available',
  );
  expect(memoryLine(null)).toContain("(4096 MiB, the machine's memory, less a share for the host)");
  expect(memoryLine('/sys/fs/cgroup/\u001b[31m')).not.toContain('\u001b');
});
