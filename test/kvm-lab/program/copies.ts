/** Rows about VMs that start from a snapshot of another VM. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LaunchSpec, Sandbox } from '../../../activities/ports/sandbox.ts';
import { limit, request, textOf } from '../../conformance/sandbox/behaviour.ts';
import { createRealHost, type RealHost, SMALL_VM } from '../../conformance/sandbox/real-host.ts';
import { changeInside, listSnapshots } from '../../rig/vms/snapshot-folder.ts';
import type { VmmRow } from './row.ts';

const VM: LaunchSpec = { ...SMALL_VM, memoryMib: 160 };
/** The keeper writes a snapshot beside the first VM's work. */
const PUBLISH_LIMIT_MS = 60_000;
/** A word in the memory of the kernel, and one of the same length. A guest that boots does not have the second one. */
const WORD = 'debian-kernel';
const MARK = 'voidbox-nonce';

/** Prints a fact of the guest on each line. */
const LOOK = [
  'cat /proc/version',
  'cat /proc/sys/kernel/random/uuid',
  'cat /proc/sys/kernel/random/boot_id',
  'date +%s',
  'hexdump -n 16 -e \'16/1 "%02x"\' /dev/urandom; echo',
  "df -m /workspace | awk 'END { print $2 }'",
].join('; ');

interface Machine {
  readonly version: string;
  /** Values that no two machines share. */
  readonly own: readonly string[];
  readonly diskMib: number;
}

async function look(sandbox: Sandbox): Promise<Machine> {
  const askedAtS = Date.now() / 1000;
  const text = await textOf(sandbox, request('sh', ['-c', LOOK]));
  const [version = '', uuid = '', bootId = '', time = '', random = '', disk = ''] = text.split('\n');
  const answeredAtS = Date.now() / 1000;
  assert.ok(Number(time) >= askedAtS - 2 && Number(time) <= answeredAtS + 2, `the guest has the time ${time}`);
  return { version, own: [uuid, bootId, random], diskMib: Number(disk) };
}

function changeMemory(folder: string): void {
  let marks = 0;
  changeInside(folder, 'memory', (bytes) => {
    for (let at = bytes.indexOf(WORD); at !== -1; at = bytes.indexOf(WORD, at + 1)) {
      bytes.write(MARK, at);
      marks += 1;
    }
  });
  assert.ok(marks > 0, `the memory contains no "${WORD}"`);
}

async function withHost(host: RealHost, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    await host.dispose();
    throw error;
  }
  assert.deepEqual(await host.dispose(), [], 'no VM is left');
}

const COPY: VmmRow = {
  name: 'a VM starts from a snapshot, as a machine of its own',
  async run({ conformance: c, task }) {
    const folder = mkdtempSync(join(tmpdir(), 'voidbox-copies-'));
    const dir = join(folder, 'snapshots');
    const host = await createRealHost(task.pieces, {
      bootTimeoutMs: task.bootTimeoutMs,
      snapshots: { dir, maxMib: 512 },
      ...(c.backend.name === 'vmm' ? { vmm: task.vmm! } : {}),
    });
    const launch = async (scope: string, spec: LaunchSpec, use: (sandbox: Sandbox) => Promise<void>): Promise<void> => {
      const key = { runId: 'copies', scope, instance: [], generation: 0 };
      await use(await host.backend.launch(key, spec, limit()));
      await host.backend.release(key);
    };
    await withHost(host, async () => {
      const own: string[] = [];
      await launch('template', VM, async (sandbox) => {
        assert.deepEqual([sandbox.facts.start, sandbox.facts.startNote], ['cold', null]);
        const machine = await look(sandbox);
        assert.ok(machine.version.includes(WORD), machine.version);
        own.push(...machine.own);
      });
      const keys = (): readonly string[] => listSnapshots(dir);
      for (const until = Date.now() + PUBLISH_LIMIT_MS; keys().length === 0 && Date.now() < until;) await sleep(50);
      assert.equal(keys().length, 1, 'the first VM made a snapshot');
      changeMemory(join(dir, keys()[0]!));
      // The size of the disk is not part of a snapshot.
      for (const [scope, diskMib] of [
        ['one', 64],
        ['other', 128],
      ] as const)
        await launch(scope, { ...VM, diskMib }, async (sandbox) => {
          assert.deepEqual([sandbox.facts.start, sandbox.facts.startNote], ['snapshot', null]);
          assert.equal(sandbox.facts.snapshot, keys()[0]);
          const machine = await look(sandbox);
          assert.ok(machine.version.includes(MARK), `the memory of the snapshot is not there: ${machine.version}`);
          assert.ok(machine.diskMib > diskMib / 2 && machine.diskMib <= diskMib, `${machine.diskMib} MiB of disk`);
          own.push(...machine.own);
        });
      if (c.backend.name === 'vmm') {
        const pages = JSON.parse(readFileSync(join(dir, keys()[0]!, 'touched'), 'utf8')) as Record<string, unknown[]>;
        assert.ok(pages['written']!.length > 0 && pages['read']!.length > 0, 'the first copy recorded its pages');
      }
      assert.equal(new Set(own).size, own.length, `machines share ${own.join(' ')}`);
    });
    rmSync(folder, { recursive: true, force: true });
  },
};

export const COPIES: readonly VmmRow[] = [COPY];
