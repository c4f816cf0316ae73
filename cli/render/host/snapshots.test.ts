import { expect, test } from 'vitest';
import type { SnapshotRecord } from '../../../setup/snapshots/snapshot-record.ts';
import type { Snapshot } from '../../../setup/snapshots/snapshot-store.ts';
import { createStyle, PLAIN } from '../text/style.ts';
import { toSnapshotJson } from './snapshot-json.ts';
import {
  renderBase,
  renderPrunedSnapshots,
  renderSnapshot,
  renderSnapshotList,
  renderSnapshotsOfHost,
} from './snapshots.ts';

const NOW_MS = 1_800_000_000_000;
const STYLE = { ...PLAIN, advise: (text: string) => text.replace(/^voidbox /, 'npx voidbox ') };
const RECORD: SnapshotRecord = {
  key: 'a1'.repeat(32),
  parts: { hostBoot: 'b', rootDiskBytes: null, later: { deep: '\u001b[31m' }, arguments: ['-m', '192M', 7] },
  hostBoot: 'b',
  mountNamespace: 1,
  vmm: 'qemu tcg',
  memoryMib: 192,
  vcpus: 2,
  rootDiskBytes: 1_048_576,
  hasMounts: true,
  stateBytes: 10,
  stateMtimeNs: 1,
  stateSha256: 'c'.repeat(64),
  memoryBytes: 0,
  memoryMtimeNs: 0,
  createdAtMs: NOW_MS - 7_200_000,
};
const USABLE: Snapshot = {
  kind: 'base',
  key: RECORD.key,
  state: 'usable',
  problem: null,
  sizeBytes: 77 * 1_048_576,
  record: RECORD,
  usedAtMs: NOW_MS - 60_000,
  lastStartFailed: false,
};
const DAMAGED: Snapshot = {
  ...USABLE,
  key: 'x\u001b[31m',
  state: 'damaged',
  problem: 'its state is missing',
  record: null,
  usedAtMs: null,
};

const list = (snapshots: readonly Snapshot[], width = Infinity, omitted = 0): readonly string[] =>
  renderSnapshotList(
    { dir: '/c', isMissing: false, problem: null, remedy: null, snapshots, omitted },
    { style: PLAIN, width, nowMs: NOW_MS, maxMib: 2_048 },
  );

test('the list shows kind, size, VM, times and damage, and the sum against the limit', () => {
  const lines = list([USABLE, DAMAGED], Infinity, 3);
  expect(lines[0]).toMatch(/^KEY +KIND +SIZE +VM +MADE +USED +STATE$/);
  expect(lines[1]).toMatch(
    /^a1a1a1a1a1a1 +base +77 MiB +192 MiB, 2 vCPUs, image of 1.0 MiB, mounts, qemu tcg +2h ago +1m ago +usable$/,
  );
  expect(lines[2]).toMatch(/base +77 MiB +- +- +- +damaged: its state is missing$/);
  expect(lines.slice(3)).toEqual([
    '',
    '2 snapshots, 154 MiB; the limit is 2.0 GiB',
    '3 more entries of the folder are not listed',
  ]);
  expect(lines.join('')).not.toContain('\u001b');
});

test('the list of an empty folder is one line', () => {
  expect(list([])).toEqual(['no snapshots']);
});

test('a snapshot is shown with all parts of its key, and no part can move the cursor', () => {
  const lines = renderSnapshot(USABLE, '/c/snapshots', PLAIN, NOW_MS);
  expect(lines).toContain(`key            ${RECORD.key}`);
  expect(lines).toContain('rootDiskBytes  none');
  expect(lines.slice(-4)).toEqual(['arguments', '  -m', '  192M', '  7']);
  expect(lines.join('')).not.toContain('\u001b');
  expect(renderSnapshot(DAMAGED, '/c', PLAIN, NOW_MS)).toContain('state          damaged: its state is missing');
});

test('a terminal gets the state in colour', () => {
  const colours = createStyle(true);
  expect(renderSnapshot(DAMAGED, '/c', colours, NOW_MS).join('')).toContain(
    colours.red('damaged: its state is missing'),
  );
});

test('the JSON of a snapshot has the same keys with and without a record', () => {
  const [usable, damaged] = [USABLE, DAMAGED].map(toSnapshotJson);
  expect(Object.keys(damaged!)).toEqual(Object.keys(usable!));
  expect(usable).toMatchObject({ kind: 'base', vmm: 'qemu tcg', memoryMib: 192, vcpus: 2, hasMounts: true });
  expect(damaged).toMatchObject({ state: 'damaged', memoryMib: null });
});

test('the result of `create` names the size, the key and the times', () => {
  const size = { memoryMib: 512, vcpus: 1, hasMounts: false, mode: 'auto', image: { kind: 'dev' } } as const;
  const key = RECORD.key;
  expect(
    renderBase({ size, result: { outcome: 'made', key, bootMs: 3_900, startMs: 800 } }, 80 * 1_048_576, PLAIN),
  ).toBe('made a1a1a1a1a1a1 for 512 MiB, 1 vCPU, image dev, 80 MiB: a VM booted in 3.9 s and starts in 800 ms');
  expect(renderBase({ size, result: { outcome: 'exists', key, startMs: 800 } }, null, PLAIN)).toBe(
    'exists a1a1a1a1a1a1 for 512 MiB, 1 vCPU, image dev: a VM starts in 800 ms',
  );
  expect(
    renderBase(
      { size: { ...size, hasMounts: true, mode: 'vmm' }, result: { outcome: 'failed', reason: 'x\n' } },
      null,
      PLAIN,
    ),
  ).toMatch(/^no snapshot for 512 MiB, 1 vCPU, image dev, read-only mounts, VMM vmm: x/);
});

test('the line of `prune` names what it deleted, or why the folder stayed', () => {
  expect(renderPrunedSnapshots({ removed: [], problem: null, remedy: null }, 'deleted')).toEqual([]);
  expect(renderPrunedSnapshots({ removed: [USABLE], problem: null, remedy: null }, 'would delete')).toEqual([
    'would delete 1 snapshot from which no VM can start (77 MiB): a1a1a1a1a1a1',
  ]);
  expect(renderPrunedSnapshots({ removed: [], problem: 'p', remedy: 'chmod 700 /c' }, 'deleted')).toEqual([
    'snapshots stayed: p; fix: chmod 700 /c',
  ]);
});

test('the doctor shows number, size and limit, and names useless snapshots and a wrong folder with the remedy', () => {
  const report = { dir: '/c', problem: null, remedy: null, snapshots: [USABLE] };
  const shown = (change: object, maxMib: number | null = 2_048): readonly string[] =>
    renderSnapshotsOfHost({ report: { ...report, ...change }, maxMib }, STYLE);
  expect(shown({})).toEqual(['  ✓ snapshots 1 (77 MiB of at most 2.0 GiB, in /c)']);
  expect(shown({}, null)).toEqual(['  - snapshots off (VOIDBOX_SNAPSHOTS=off): each VM boots']);
  expect(shown({ snapshots: [USABLE, DAMAGED] }).slice(1)).toEqual([
    '  ! snapshots no VM can start from 1 of them: damaged, of an earlier boot of the host, or of replaced files',
    '    fix: npx voidbox prune',
  ]);
  expect(shown({ problem: 'other users may enter /c (mode 0755)', remedy: 'chmod 700 /c' })).toEqual([
    '  ! snapshots each VM boots: other users may enter /c (mode 0755)',
    '    fix: chmod 700 /c',
  ]);
});
