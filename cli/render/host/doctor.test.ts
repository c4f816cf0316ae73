import { expect, test } from 'vitest';
import type { HostReport } from '../../../setup/resolve.ts';
import type { DiskRoom } from '../../../activities/ports/local-store.ts';
import type { FolderReport } from '../../../setup/cache/write-probe.ts';
import { renderDoctor } from './doctor.ts';
import type { PreparedOfHost } from './prepared-sandboxes.ts';
import type { SnapshotsOfHost } from './snapshots.ts';
import { PLAIN as STYLE } from '../text/style.ts';

const REPORT: HostReport = {
  system: { name: 'Debian 12', kernel: '6.1', cpus: 4, memoryTotalMib: 16_384, memoryFreeMib: 900 },
  kernelKind: 'voidbox',
  pieces: [],
  kvm: { kind: 'none', explanation: '/dev/kvm does not exist', remedy: null },
  isolation: { level: 'microvm', accelerator: 'tcg', explanation: 'emulated', remedy: null },
  unlimited: null,
  rust: { isNeeded: false, minimumVersion: '1.85', path: null, version: null, problem: null, remedy: null },
  cache: { path: '/c', availableBytes: 2e9, sizeBytes: 4e9, neededBytes: 0, problem: null, remedy: null },
  isReady: true,
};
const TEMPORAL = {
  kind: 'embedded',
  address: null,
  namespace: 'default',
  uiUrl: null,
  problem: null,
  remedy: null,
  hasWorker: null,
} as const;
const PLAIN = { ...STYLE, advise: (text: string) => text.replace(/^voidbox /, 'npx voidbox ') };
const SNAPSHOTS: SnapshotsOfHost = {
  report: { dir: '/cache/snapshots', problem: null, remedy: null, snapshots: [] },
  maxMib: 2_048,
};
const PREPARED: PreparedOfHost = { list: { sandboxes: [], damaged: [] }, maxMib: 100 };
const STATE = { path: '/s', problem: null, remedy: null };
const DISK = { availableBytes: 2e9, sizeBytes: 4e9, floorBytes: 1e9, isLow: false };

function memoryLine(limitedBy: string | null): string | undefined {
  const vmMemory = { budgetMib: 3_276, totalMib: 4_096, availableMib: 3_000, limitedBy };
  const lines = renderDoctor(
    REPORT,
    TEMPORAL,
    { state: STATE, disk: DISK, vmMemory, durability: 'process', snapshots: SNAPSHOTS, prepared: PREPARED },
    PLAIN,
  );
  return lines.find((line) => line.includes('VMs together'))?.trim();
}

test('VMs that wait are shown with their shapes', () => {
  const vmMemory = { budgetMib: 1, totalMib: 1, availableMib: 1, limitedBy: null };
  const folders = { state: STATE, disk: DISK, vmMemory, durability: 'process', snapshots: SNAPSHOTS } as const;
  const show = (waiting: readonly { shape: string; count: number }[]): string =>
    renderDoctor(REPORT, TEMPORAL, { ...folders, prepared: PREPARED, waiting }, PLAIN).join('\n');
  expect(show([{ shape: 'base:512x1', count: 2 }])).toContain('  pool       VMs that wait for stages: base:512x1=2\n');
  expect(show([])).not.toContain('that wait');
});

test('the memory line names the memory for VMs and what limits it', () => {
  expect(memoryLine('/sys/fs/cgroup/a.service')).toBe(
    'memory     VMs together may take 3276 MiB (4096 MiB, the limit of the cgroup /sys/fs/cgroup/a.service, less a share for the host); 3000 MiB are available',
  );
  expect(memoryLine(null)).toContain("(4096 MiB, the machine's memory, less a share for the host)");
  expect(memoryLine('/sys/fs/cgroup/\u001b[31m')).not.toContain('\u001b');
});

function linesOf(report: Partial<HostReport>, state: FolderReport = STATE, disk: DiskRoom = DISK): string {
  const vmMemory = { budgetMib: 1, totalMib: 1, availableMib: 1, limitedBy: null };
  const folders = { state, disk, vmMemory, durability: 'process', snapshots: SNAPSHOTS, prepared: PREPARED } as const;
  return renderDoctor({ ...REPORT, ...report }, TEMPORAL, folders, PLAIN).join('\n');
}

test('the lines of folders show their free space and how much of it is needed', () => {
  expect(linesOf({})).toContain('  ✓ cache  /c (1.9 GiB of 3.7 GiB free; all pieces are there)\n');
  expect(linesOf({})).toContain('  ✓ state  /s (1.9 GiB of 3.7 GiB free; VMs start with 954 MiB or more)\n');
  const cache = { ...REPORT.cache, neededBytes: 2 ** 30 };
  expect(linesOf({ cache })).toContain('free; the missing pieces take up to 1.0 GiB)\n');
  expect(linesOf({ cache: { ...cache, problem: 'the disk is full', remedy: 'free it' } })).toContain(
    '  ✗ cache  the disk is full\n    fix: free it\n',
  );
});

test('a state folder that cannot be written is reported instead of its disk', () => {
  const low = { ...DISK, availableBytes: 1e8, isLow: true };
  expect(linesOf({}, STATE, low)).toContain(
    '  ✗ state  95 MiB of 3.7 GiB are free on the disk of /s: no VM is started',
  );
  const state = { path: '/s', problem: 'the state folder /s cannot be written: EROFS', remedy: 'fix it' };
  expect(linesOf({}, state, low)).toContain(
    '  ✗ state  the state folder /s cannot be written: EROFS\n    fix: fix it\n',
  );
});

test('the line of Rust reports no problem if Rust is not needed', () => {
  expect(linesOf({})).toMatch(/^ {2}- rust +not needed: the keeper and the agent are built$/m);
  const rust = { ...REPORT.rust, isNeeded: true };
  expect(linesOf({ rust: { ...rust, path: '/bin/cargo', version: '1.90.0' } })).toMatch(
    /^ {2}✓ rust +1\.90\.0 +\/bin\/cargo \(compiles the keeper and the agent; 1\.85 or newer\)$/m,
  );
  expect(linesOf({ rust: { ...rust, problem: 'there is none', remedy: 'get it' } })).toMatch(
    /^ {2}✗ rust +there is none\n {4}fix: get it$/m,
  );
});

test('the doctor says which limits of a VM have a control group, and why others have no group', () => {
  const limits = (cpu: string | null, memory: string | null): readonly string[] =>
    linesOf({ unlimited: { cpu, memory } })
      .split('\n')
      .filter((line) => line.startsWith('  limits'))
      .map((line) => line.slice('  limits     '.length));
  expect(limits(null, null)).toEqual(['control groups limit the CPU and the memory of a VM']);
  expect(limits('it is not delegated', 'it is not delegated')).toEqual([
    'no control group limits the CPU and memory of a VM: it is not delegated',
  ]);
  const [ofCpu = '', ofMemory] = limits('no \u001b[31mcpu', null);
  expect(ofCpu).toContain('no control group limits the CPU of a VM: no ');
  expect(ofCpu).not.toContain('\u001b');
  expect(ofMemory).toBe('control groups limit the memory of a VM');
  expect(linesOf({})).not.toContain('  limits');
});

test('the doctor prints each fix below the problem, and equal fixes once', () => {
  const heads = (kvm: string, isolation: string): readonly string[] =>
    linesOf({ kvm: { ...REPORT.kvm, remedy: kvm }, isolation: { ...REPORT.isolation, remedy: isolation } })
      .split('\n')
      .filter((line) => /^ {2}(?:KVM|runs get|kernel|memory)|fix:/.test(line))
      .map((line) => line.trim().split(/ {2,}/)[0]!);
  expect(heads('log in again', 'install bwrap')).toEqual([
    'KVM',
    'fix: log in again',
    'runs get',
    'fix: install bwrap',
    'kernel',
    'memory',
  ]);
  expect(heads('log in again', 'log in again').filter((line) => line.startsWith('fix:'))).toHaveLength(1);
});

test('an optional piece that is not here is no problem', () => {
  const piece = { name: 'codex', purpose: 'the codex command line', variable: null, path: null } as const;
  const missing = { ...piece, version: null, from: null, problem: 'none', remedy: 'voidbox up --with codex' };
  const lines = linesOf({ pieces: [{ ...missing, isOptional: true }] });
  expect(lines).toContain(
    '  - codex  not here (the codex command line): only runs that need it fetch it. Fetch it now: npx voidbox up --with codex\n',
  );
  expect(lines).not.toContain('✗');
  expect(linesOf({ pieces: [{ ...missing, name: 'postgres', isOptional: true }] })).toContain(
    ': the first token fetches it. Fetch it now: ',
  );
  expect(linesOf({ pieces: [{ ...missing, isOptional: false }] })).toMatch(
    / {2}✗ codex {2}none .*\n {4}fix: npx voidbox up --with codex\n/,
  );
});
