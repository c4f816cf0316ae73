/** A row about the root disk of an image: VMs that use the same one share its pages, and copies read their own. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, copyFileSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LaunchSpec } from '../../../activities/ports/sandbox.ts';
import { readRunDir, vmRunDir } from '../../../native/index.ts';
import { limit, script, textOf } from '../../conformance/sandbox/behaviour.ts';
import { createRealHost, type RealHost, SMALL_VM } from '../../conformance/sandbox/real-host.ts';
import { descendantsOf, listSnapshots } from '../../rig/vms/snapshot-folder.ts';
import { isVmm } from './deaths.ts';
import type { VmmRow } from './row.ts';
import type { KvmTask } from './task.ts';

const VMS = 4;
const VM: LaunchSpec = { ...SMALL_VM, memoryMib: 256, image: { kind: 'dev' } };
const PUBLISH_LIMIT_MS = 60_000;
/** The program runs, and is read as a whole: no part of it may be in the guest's own memory. */
const USE =
  'git --version; cat "$(command -v git)" > /dev/null; grep -o "dax=[a-z]*" /proc/mounts; cat /etc/os-release';
const LEAST_KIB = 4 << 10;
/** Words of a file of the image, and others of the same length. */
const WORDS = 'PRETTY_NAME="Debian';
const OTHER_WORDS = 'PRETTY_NAME="Voidbx';

interface Mapped {
  readonly residentKib: number;
  /** Each page counts as its part for each process that maps it. */
  readonly proportionalKib: number;
}

/** Returns the pages of a file that a process has mapped. */
function readMapped(pid: number, path: string): Mapped {
  const kib = { Rss: 0, Pss: 0 };
  let isOfFile = false;
  for (const line of readFileSync(`/proc/${pid}/smaps`, 'utf8').split('\n')) {
    if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) isOfFile = line.endsWith(path);
    const [, name, amount] = /^(Rss|Pss): +(\d+) kB$/.exec(line) ?? [];
    if (isOfFile && amount !== undefined) kib[name as 'Rss' | 'Pss'] += Number(amount);
  }
  return { residentKib: kib.Rss, proportionalKib: kib.Pss };
}

async function findVmm(keeper: string, host: RealHost, key: Parameters<typeof vmRunDir>[1]): Promise<number> {
  const { pid } = await readRunDir(keeper, vmRunDir(host.vmsDir, key));
  const vmm = pid === null ? undefined : descendantsOf(pid).find(isVmm);
  assert.ok(vmm !== undefined, 'a VMM runs below the keeper');
  return vmm;
}

interface Used {
  readonly vmm: number;
  readonly said: string;
}

async function use(task: KvmTask, host: RealHost, scope: string, start: 'cold' | 'snapshot'): Promise<Used> {
  const key = { runId: 'shared', scope, instance: [], generation: 0 };
  const sandbox = await host.backend.launch(key, VM, limit());
  assert.deepEqual([sandbox.facts.start, sandbox.facts.startNote], [start, null]);
  const said = await textOf(sandbox, script(USE));
  assert.match(said, /^git version .*\ndax=always\n/, said);
  return { vmm: await findVmm(task.pieces.keeper, host, key), said };
}

function changeWords(disk: string): void {
  const found = execFileSync('grep', ['-aobF', WORDS, disk], { encoding: 'utf8', env: { LC_ALL: 'C' } });
  const file = openSync(disk, 'r+');
  for (const line of found.trimEnd().split('\n')) writeSync(file, OTHER_WORDS, Number.parseInt(line));
  closeSync(file);
}

async function shareDisk(task: KvmTask, folder: string): Promise<void> {
  const snapshots = { dir: join(folder, 'snapshots'), maxMib: 512 };
  const open = async (devDisk: string): Promise<RealHost> =>
    await createRealHost(task.pieces, { bootTimeoutMs: task.bootTimeoutMs, snapshots, vmm: task.vmm!, devDisk });
  const disk = task.devDisk!;
  const host = await open(disk);
  const used = [await use(task, host, 'vm0', 'cold')];
  for (const until = Date.now() + PUBLISH_LIMIT_MS; listSnapshots(snapshots.dir).length === 0; await sleep(50))
    assert.ok(Date.now() < until, 'the first VM made a snapshot');
  for (let at = 1; at < VMS; at += 1) used.push(await use(task, host, `vm${at}`, 'snapshot'));
  const mapped = used.map(({ vmm }) => readMapped(vmm, disk));
  const figures = JSON.stringify(mapped);
  const whole = Math.max(...mapped.map(({ residentKib }) => residentKib));
  const ofAll = mapped.reduce((sum, { proportionalKib }) => sum + proportionalKib, 0);
  assert.ok(
    mapped.every(({ residentKib }) => residentKib > LEAST_KIB),
    figures,
  );
  assert.ok(ofAll < whole * 1.25, `${VMS} VMs have ${ofAll} KiB together: ${figures}`);
  await host.dispose();
  // The disk of a copy can be another one of the same size.
  mkdirSync(join(folder, 'other'));
  const other = join(folder, 'other', 'root.ext4');
  copyFileSync(disk, other);
  changeWords(other);
  const otherHost = await open(other);
  const { said } = await use(task, otherHost, 'other', 'snapshot');
  assert.ok(used[0]!.said.includes(WORDS) && said.includes(OTHER_WORDS) && !said.includes(WORDS), said);
  await otherHost.dispose();
}

export const SHARED_DISK: VmmRow = {
  name: `${VMS} VMs that run a program of their image have its pages once, and a copy has those of its own disk`,
  async run({ task }) {
    const folder = mkdtempSync(join(tmpdir(), 'voidbox-shared-disk-'));
    await shareDisk(task, folder);
    rmSync(folder, { recursive: true, force: true });
  },
};
