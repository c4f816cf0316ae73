/** A row about checkpoints with memory: a VM is saved twice while it lives, and other VMs continue from both. */
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { join } from 'node:path';
import type { CheckpointTarget, LaunchSpec, Sandbox } from '../../../activities/ports/sandbox.ts';
import { OWNERS_FILE_MODE } from '../../../activities/ports/sandbox.ts';
import { chunks, limit, script, textOf, withOwnVm } from '../../conformance/sandbox/behaviour.ts';
import type { VmmRow } from './row.ts';

const VM: Partial<LaunchSpec> = { memoryMib: 192, diskMib: 64, savesMemory: true };
const KEY = '/run/credentials/key';

/** A file in the memory of the guest, one on its disk, and what no two machines share. */
const LOOK =
  'cat /dev/shm/kept /workspace/kept; cat /proc/sys/kernel/random/uuid; hexdump -n 8 -e \'8/1 "%02x"\' /dev/urandom; echo; date +%s';

async function keep(sandbox: Sandbox, text: string): Promise<void> {
  await textOf(sandbox, script(`echo ${text} >> /dev/shm/kept; echo ${text} >> /workspace/kept`));
}

/** Returns the lines of both files, and the guest's own values. */
async function look(sandbox: Sandbox): Promise<{ readonly kept: readonly string[]; readonly own: readonly string[] }> {
  const lines = (await textOf(sandbox, script(LOOK))).split('\n');
  const now = Number(lines.at(-1));
  assert.ok(Math.abs(now - Date.now() / 1000) < 30, `the guest has the time ${now}`);
  return { kept: lines.slice(0, -3), own: lines.slice(-3, -1) };
}

const FULL_SAVE: VmmRow = {
  name: 'a VM is saved with its memory twice, continues, and other VMs continue from both saves',
  async run({ conformance: c }) {
    const folder = await c.hostDir();
    const [base, diff] = [join(folder, 'base'), join(folder, 'diff')];
    const save = async (sandbox: Sandbox, target: Pick<CheckpointTarget, 'dir' | 'memory'>): Promise<number> =>
      (await sandbox.checkpoint({ ...target, withSecrets: false }, limit())).usedBytes;
    const own: string[] = [];
    const expectKept = async (sandbox: Sandbox, kept: readonly string[]): Promise<void> => {
      const seen = await look(sandbox);
      assert.deepEqual(seen.kept, [...kept, ...kept]);
      own.push(...seen.own);
    };
    await withOwnVm(c, VM, async (sandbox) => {
      await keep(sandbox, 'one');
      const key = Buffer.from('a key');
      await sandbox.writeFile(KEY, key.length, chunks(key), limit(), OWNERS_FILE_MODE);
      await save(sandbox, { dir: base, memory: 'all' });
      await expectKept(sandbox, ['one']);
      assert.equal(await sandbox.readFile(KEY, limit()), null, 'the key is gone');
      await keep(sandbox, 'two');
      await save(sandbox, { dir: diff, memory: 'changed' });
      await expectKept(sandbox, ['one', 'two']);
    });
    for (const [dir, kept] of [
      [base, ['one']],
      [diff, ['one', 'two']],
      [diff, ['one', 'two']],
    ] as const)
      await withOwnVm(c, { ...VM, from: dir }, async (sandbox) => {
        assert.equal(sandbox.facts.start, 'snapshot');
        await expectKept(sandbox, kept);
        assert.equal(await sandbox.readFile(KEY, limit()), null, 'no save has the key');
        assert.equal(await textOf(sandbox, script('mkdir /workspace/more && echo made')), 'made');
      });
    assert.equal(new Set(own).size, own.length, `each VM has its own random numbers: ${own.join(' ')}`);
  },
};

export const FULL_SAVES: readonly VmmRow[] = [FULL_SAVE];
