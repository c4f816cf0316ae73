/** A row in which the disk of the host is full: the VM waits for room, and its guest does not notice. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Exec, Sandbox } from '../../../activities/ports/sandbox.ts';
import { readDiskOfVm, vmRunDir } from '../../../native/index.ts';
import { limit, script } from '../../conformance/sandbox/behaviour.ts';
import { createRealHost, SMALL_VM } from '../../conformance/sandbox/real-host.ts';
import { SmallDisk } from '../../rig/vms/small-disk.ts';
import type { VmmRow } from './row.ts';

const KEY = { runId: 'full-disk', scope: 'guest', instance: [], generation: 0 };
/** Room for the disk of a small VM that has no file yet. */
const HOST_MIB = 64;
const FILES = 30;
/** Each file is on the host's disk before its line is printed. */
const WRITES = `for i in $(seq ${FILES}); do head -c 524288 /dev/urandom > file-$i && sync || exit 1; echo line $i; sleep 0.1; done`;
const WAIT_LIMIT_MS = 60_000;
/** A guest that is not paused writes several files in this time. */
const FULL_MS = 2_000;

interface Followed {
  text: string;
  readonly done: Promise<void>;
}

function followOutput(exec: Exec): Followed {
  const followed = { text: '', done: Promise.resolve() };
  const read = async (): Promise<void> => {
    for await (const bytes of exec.output('stdout', 0, limit())) followed.text += Buffer.from(bytes).toString();
  };
  followed.done = read();
  // The row may fail before it waits for the end.
  followed.done.catch(() => undefined);
  return followed;
}

async function until(what: string, probe: () => Promise<boolean> | boolean): Promise<void> {
  for (const end = Date.now() + WAIT_LIMIT_MS; !(await probe()); await sleep(50))
    if (Date.now() > end) throw new Error(`waited ${WAIT_LIMIT_MS} ms for ${what}`);
}

async function fillWhileItWrites(sandbox: Sandbox, dir: string, disk: SmallDisk): Promise<void> {
  const exec = await sandbox.exec(script(WRITES), limit());
  const output = followOutput(exec);
  await until('a line', () => output.text.includes('line 3\n'));
  disk.fill();
  await until('the VM to wait', async () => (await readDiskOfVm(dir)) !== null);
  const before = output.text;
  await sleep(FULL_MS);
  assert.notEqual(await readDiskOfVm(dir), null, 'the VM still waits');
  assert.equal(output.text, before, 'nothing runs on a full disk');
  disk.makeRoom();
  const exit = await exec.wait(limit());
  await output.done;
  assert.equal(exit.exitCode, 0, `${exit.reason}: ${output.text}`);
  assert.equal(output.text, Array.from({ length: FILES }, (_, index) => `line ${index + 1}\n`).join(''));
  assert.equal(await readDiskOfVm(dir), null, 'the disk has room');
}

const WAITS: VmmRow = {
  name: 'a VM whose host has no room waits, and its guest does not notice',
  async run({ conformance: c, task }) {
    const folder = mkdtempSync(join(tmpdir(), 'voidbox-full-'));
    const disk = new SmallDisk(folder, HOST_MIB);
    try {
      const host = await createRealHost(task.pieces, {
        folder,
        bootTimeoutMs: task.bootTimeoutMs,
        snapshots: 'off',
        ...(c.backend.name === 'vmm' ? { vmm: task.vmm! } : {}),
      });
      let left: readonly string[] = [];
      try {
        const sandbox = await host.backend.launch(KEY, { ...SMALL_VM, mode: c.backend.name }, limit());
        await fillWhileItWrites(sandbox, vmRunDir(host.vmsDir, KEY), disk);
        await host.backend.release(KEY);
      } finally {
        left = await host.dispose();
      }
      assert.deepEqual(left, [], 'no VM is left');
    } finally {
      // The program is bundled for a Node without `using`.
      disk[Symbol.dispose]();
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

export const FULL_DISK: readonly VmmRow[] = [WAITS];
