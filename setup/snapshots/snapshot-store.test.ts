import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { identifyFile } from './replaced-files.ts';
import { parseSnapshotRecord } from './snapshot-record.ts';
import { deleteSnapshot, deleteSnapshotRemains, readSnapshotFolder } from './snapshot-store.ts';
import { leaveSnapshot, SNAPSHOT_KEY as KEY } from '../../test/rig/vms/left-snapshot.ts';

let folder: string;
let dir: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-snapshot-store-'));
  dir = join(folder, 'snapshots');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('a folder that does not exist has no snapshots and no problem', async () => {
  expect(await readSnapshotFolder(dir)).toEqual({
    dir,
    isMissing: true,
    problem: null,
    remedy: null,
    snapshots: [],
    omitted: 0,
  });
});

test('a snapshot that a keeper made is usable, and its record names the size of its VM', async () => {
  leaveSnapshot(dir, { memoryMib: 192, vcpus: 2, mounts: true, rootDiskBytes: 4096 });
  const { snapshots } = await readSnapshotFolder(dir);
  expect(snapshots).toMatchObject([
    {
      kind: 'base',
      key: KEY,
      state: 'usable',
      problem: null,
      lastStartFailed: false,
      record: { memoryMib: 192, vcpus: 2, hasMounts: true, rootDiskBytes: 4096 },
    },
  ]);
  expect(snapshots[0]!.sizeBytes).toBeGreaterThan(10);
  expect(Math.abs(snapshots[0]!.usedAtMs! - Date.now())).toBeLessThan(60_000);
});

test('a snapshot with its memory in a file of its own is usable if the file is complete, and holes have no size', async () => {
  const own = leaveSnapshot(dir, { memoryMib: 64, hasMemory: true });
  const [snapshot] = (await readSnapshotFolder(dir)).snapshots;
  expect(snapshot).toMatchObject({ state: 'usable', problem: null });
  expect(snapshot!.sizeBytes).toBeLessThan(65_536);
  truncateSync(join(own, 'memory'), 19);
  expect((await readSnapshotFolder(dir)).snapshots).toMatchObject([
    { state: 'damaged', problem: 'its memory has 19 bytes, expected 67108864' },
  ]);
  truncateSync(join(own, 'memory'), 67_108_864);
  utimesSync(join(own, 'memory'), 1, 1);
  expect((await readSnapshotFolder(dir)).snapshots).toMatchObject([
    { problem: 'its memory was changed after it was made' },
  ]);
  rmSync(join(own, 'memory'));
  expect((await readSnapshotFolder(dir)).snapshots).toMatchObject([{ problem: 'its memory is missing' }]);
});

test('a snapshot of an earlier boot of the host is named as such, and a failed start is shown', async () => {
  const own = leaveSnapshot(dir, { hostBoot: 'earlier' });
  writeFileSync(join(own, 'failed'), '');
  expect((await readSnapshotFolder(dir)).snapshots).toMatchObject([{ state: 'earlier-boot', lastStartFailed: true }]);
});

test.each<[string, (kernel: string) => void]>([
  ['replaced', (kernel) => writeFileSync(kernel, 'another')],
  ['deleted', (kernel) => rmSync(kernel)],
  [
    'behind a file',
    (kernel) => {
      rmSync(dirname(kernel), { recursive: true });
      writeFileSync(dirname(kernel), '');
    },
  ],
])('a snapshot whose kernel is %s is named as such, except one of another container', async (_name, change) => {
  mkdirSync(join(folder, 'a kernel'));
  const kernel = join(folder, 'a kernel', 'vmlinuz');
  writeFileSync(kernel, 'one');
  utimesSync(kernel, new Date(-1_250), new Date(-1_250));
  const identity = await identifyFile(kernel);
  expect(identity).toMatch(/\/a kernel\/vmlinuz \d+:\d+ 3 bytes, changed -2\.750000000$/);
  leaveSnapshot(dir, { kernel: identity });
  leaveSnapshot(dir, { key: 'b'.repeat(64), kernel: identity, mountNamespace: 1 });
  const read = async (): Promise<object> =>
    Object.fromEntries((await readSnapshotFolder(dir)).snapshots.map(({ key, state }) => [key[0], state]));
  expect(await read()).toEqual({ a: 'usable', b: 'usable' });
  change(kernel);
  expect(await read()).toEqual({ a: 'replaced', b: 'usable' });
});

test.each<[string, string, (own: string) => void]>([
  ['a short state', 'its state has 9 bytes, expected 10', (own) => truncateSync(join(own, 'state'), 9)],
  ['no state', 'its state is missing', (own) => rmSync(join(own, 'state'))],
  [
    'a state of another hash',
    `its state has the SHA-256 84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882, expected ${'c'.repeat(64)}`,
    (own) => {
      const path = join(own, 'snapshot.json');
      const text = readFileSync(path, 'utf8');
      writeFileSync(path, text.replace(/(?<="sha256":")[0-9a-f]+/, 'c'.repeat(64)));
    },
  ],
  [
    'a state that was written later',
    'its state was changed after it was made',
    (own) => utimesSync(join(own, 'state'), 1, 1),
  ],
  [
    'a state that is a link',
    'its state is not a file',
    (own) => {
      rmSync(join(own, 'state'));
      symlinkSync('/etc/hostname', join(own, 'state'));
    },
  ],
  [
    'a state that others may read',
    'its state: other users may open it (mode 0640)',
    (own) => chmodSync(join(own, 'state'), 0o640),
  ],
  ['a folder that others may enter', 'its folder: other users may open it (mode 0755)', (own) => chmodSync(own, 0o755)],
  ['no record', 'its snapshot.json is missing', (own) => rmSync(join(own, 'snapshot.json'))],
  [
    'a record that is a link',
    'its snapshot.json is a link',
    (own) => {
      rmSync(join(own, 'snapshot.json'));
      symlinkSync('/etc/hostname', join(own, 'snapshot.json'));
    },
  ],
  [
    'a record that is a folder',
    'its snapshot.json is not a file',
    (own) => {
      rmSync(join(own, 'snapshot.json'));
      mkdirSync(join(own, 'snapshot.json'));
    },
  ],
  [
    'a record that is too large',
    'its snapshot.json has 65537 bytes; at most 65536 are allowed',
    (own) => writeFileSync(join(own, 'snapshot.json'), ' '.repeat(65_537)),
  ],
  [
    'a record that is not JSON',
    'its snapshot.json is not JSON',
    (own) => writeFileSync(join(own, 'snapshot.json'), '{'),
  ],
  [
    'a record of another key',
    'its snapshot.json is of another key',
    (own) => {
      const text = readFileSync(join(own, 'snapshot.json'), 'utf8');
      writeFileSync(join(own, 'snapshot.json'), text.replace(KEY, 'f'.repeat(64)));
    },
  ],
])('%s is damage with a name', async (_what, problem, damage) => {
  damage(leaveSnapshot(dir));
  expect((await readSnapshotFolder(dir)).snapshots).toMatchObject([{ key: KEY, state: 'damaged', problem }]);
});

test('entries that are no snapshots are listed as damaged, and no link is followed', async () => {
  leaveSnapshot(dir);
  writeFileSync(join(dir, 'notes'), 'x');
  symlinkSync('/etc', join(dir, 'b'.repeat(64)));
  mkdirSync(join(dir, '.new-abc'));
  writeFileSync(join(dir, '.lock-ab'), '');
  const { snapshots } = await readSnapshotFolder(dir);
  expect(snapshots.map(({ key, problem }) => [key, problem])).toEqual([
    [KEY, null],
    ['b'.repeat(64), 'it is not a folder'],
    ['notes', 'its name is not a key'],
  ]);
});

test.each<[unknown, string]>([
  [[], 'key'],
  [null, 'key'],
  [{ key: 'k', parts: { hostBoot: 1 } }, 'parts.hostBoot'],
  [{ key: 'k', parts: { hostBoot: 'b' }, memoryMib: -1 }, 'memoryMib'],
  [{ key: 'k', parts: { hostBoot: 'b', rootDiskBytes: 'x' } }, 'parts.rootDiskBytes'],
  [{ key: 'k', parts: { hostBoot: 'b' }, memoryMib: 1, stateBytes: 1.5 }, 'stateBytes'],
])('a record with wrong fields names the first one: %j', (value, field) => {
  expect(parseSnapshotRecord(JSON.stringify(value))).toEqual({
    problem: `\`${field}\` in its snapshot.json is missing or wrong`,
  });
});

test('the record of a later build is read, and arguments of any form do no harm', () => {
  const parts = { hostBoot: 'b', arguments: ['-smp', {}, 7, '-smp'], more: 1 };
  const record = { key: 'k', parts, memoryMib: 1, stateBytes: 1, stateMtimeNs: 1, createdAtMs: 1, later: {} };
  expect(parseSnapshotRecord(JSON.stringify(record))).toMatchObject({ vcpus: null, hasMounts: false });
});

test.each([
  ['{"version":1,"vcpus":2,"folders":{"fd":0,"tag":"mounts"}}', { vcpus: 2, hasMounts: true }],
  ['{"version":1,"vcpus":1}', { vcpus: 1, hasMounts: false }],
  ['{"vcpus":-1,"folders":null}', { vcpus: null, hasMounts: false }],
  ['-smp', { vcpus: null, hasMounts: false }],
])('the size of a VM of `voidbox-vmm` is read from its configuration: %s', (text, shape) => {
  const parts = { hostBoot: 'b', vmm: 'vmm kvm', arguments: [text] };
  const record = { key: 'k', parts, memoryMib: 256, stateBytes: 1, stateMtimeNs: 1, createdAtMs: 1 };
  expect(parseSnapshotRecord(JSON.stringify(record))).toMatchObject({ vmm: 'vmm kvm', memoryMib: 256, ...shape });
});

test('a folder that others may enter, or that is a file or a link, is refused with the remedy', async () => {
  mkdirSync(dir, { mode: 0o755 });
  chmodSync(dir, 0o755);
  expect(await readSnapshotFolder(dir)).toMatchObject({
    problem: `other users may enter ${dir} (mode 0755)`,
    remedy: `chmod 700 ${dir}`,
  });
  rmSync(dir, { recursive: true });
  writeFileSync(dir, '');
  expect(await readSnapshotFolder(dir)).toMatchObject({ problem: `${dir} is not a folder`, remedy: `rm ${dir}` });
  rmSync(dir);
  symlinkSync(folder, dir);
  expect(await readSnapshotFolder(dir)).toMatchObject({ problem: `${dir} is not a folder` });
});

test('a deletion removes the snapshot and nothing behind a link', async () => {
  leaveSnapshot(dir);
  const target = join(folder, 'target');
  mkdirSync(target);
  writeFileSync(join(target, 'kept'), 'x');
  symlinkSync(target, join(dir, 'link'));
  expect(await deleteSnapshot(dir, KEY)).toBe(true);
  expect(await deleteSnapshot(dir, 'link')).toBe(true);
  expect(await deleteSnapshot(dir, KEY)).toBe(false);
  expect(readdirSync(dir)).toEqual([]);
  expect(readdirSync(target)).toEqual(['kept']);
});

test('remains of deletions and of dead keepers are removed, not a snapshot that is being made', async () => {
  leaveSnapshot(dir);
  for (const name of ['.gone-a-1', '.new-old', '.new-young']) mkdirSync(join(dir, name));
  const nowMs = Date.now();
  utimesSync(join(dir, '.new-old'), (nowMs - 3_700_000) / 1000, (nowMs - 3_700_000) / 1000);
  await deleteSnapshotRemains(dir, nowMs);
  expect(readdirSync(dir).sort()).toEqual(['.new-young', KEY]);
  expect(statSync(dir).mode & 0o777).toBe(0o700);
});

/** Only root can give a file to another user. `/usr` belongs to another user for everyone else. */
const IS_ROOT = process.geteuid?.() === 0;

test('files and folders of another user are damage, and their folder is refused', async () => {
  const own = leaveSnapshot(dir);
  const given = [
    [join(own, 'state'), 'its state: another user (uid 12345) owns it'],
    [join(own, 'snapshot.json'), 'its snapshot.json: another user (uid 12345) owns it'],
    [own, 'its folder: another user (uid 12345) owns it'],
  ] as const;
  for (const [path, problem] of IS_ROOT ? given : []) {
    chownSync(path, 12_345, 12_345);
    expect((await readSnapshotFolder(dir)).snapshots).toMatchObject([{ state: 'damaged', problem }]);
  }
  if (IS_ROOT) chownSync(dir, 12_345, 12_345);
  const [foreign, owner] = IS_ROOT ? [dir, 12_345] : ['/usr', 0];
  expect(await readSnapshotFolder(foreign)).toMatchObject({
    problem: `another user (uid ${owner}) owns ${foreign}`,
    remedy: `rm -r ${foreign}`,
    snapshots: [],
  });
});
