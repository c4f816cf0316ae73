/** Checkpoints of a VM's disk, and VMs that start from them. */
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LaunchSpec, Sandbox } from '../../../activities/ports/sandbox.ts';
import { isCodedError } from '../../../domain/errors/coded-error.ts';
import { type CheckpointRecord, parseCheckpoint } from '../../../domain/run/checkpoint.ts';
import { deleteCheckpoint } from '../../../sandbox/checkpoints/folder.ts';
import {
  assertCode,
  assertSameBytes,
  chunks,
  collect,
  countingBytes,
  limit,
  request,
  script,
  textOf,
  withOwnVm,
  type Behaviour,
  type Conformance,
} from './behaviour.ts';

const MIB = 1024 * 1024;
const PLACES = ['/workspace/deep/er', '/home/sandbox', '/tmp'] as const;

export const CHECKPOINTS: readonly Behaviour[] = [
  {
    name: 'a VM starts with the workspace, home folder and /tmp of a checkpoint',
    guest: 'any',
    async run(c) {
      const dir = join(await c.hostDir(), 'saved');
      const body = countingBytes(3 * MIB + 5);
      const record = await withOwnVm(c, {}, async (vm) => {
        for (const place of PLACES) await put(vm, `${place}/kept`, body);
        return await vm.checkpoint({ dir, withSecrets: false }, limit());
      });
      await withOwnVm(c, { from: dir }, async (vm) => {
        for (const place of PLACES) assertSameBytes(await get(vm, `${place}/kept`), body, place);
        await put(vm, '/workspace/deep/er/later', Buffer.from('writable'));
      });
      assert.equal(record.diskMib, c.plan.diskMib);
      assert.equal(record.root, null);
      assert.ok(record.usedBytes >= PLACES.length * body.length, String(record.usedBytes));
    },
  },
  {
    name: 'the record and the disk of a checkpoint can only be read by their owner',
    guest: 'any',
    async run(c) {
      const dir = join(await c.hostDir(), 'saved');
      const madeBy = { run: 'the-run', stage: 'the stage' };
      const record = await withOwnVm(
        c,
        {},
        async (vm) => await vm.checkpoint({ dir, name: 'a-name', withSecrets: true, madeBy }, limit()),
      );
      assert.deepEqual(parseCheckpoint(await readFile(join(dir, 'checkpoint.json'), 'utf8')), record);
      assert.equal(record.name, 'a-name');
      assert.equal(record.withSecrets, true);
      assert.deepEqual(record.madeBy, madeBy);
      assert.deepEqual((await readdir(dir)).sort(), ['checkpoint.json', 'disk']);
      assert.equal((await stat(dir)).mode & 0o777, 0o700);
      for (const name of ['checkpoint.json', 'disk'])
        assert.equal((await stat(join(dir, name))).mode & 0o777, 0o600, name);
    },
  },
  {
    name: 'a VM continues after its checkpoint, and its later writes are not in it',
    guest: 'any',
    async run(c) {
      const dir = join(await c.hostDir(), 'saved');
      await withOwnVm(c, {}, async (vm) => {
        await put(vm, '/workspace/file', Buffer.from('first'));
        await vm.checkpoint({ dir, withSecrets: false }, limit());
        await put(vm, '/workspace/file', Buffer.from('second'));
        assert.equal(String(await get(vm, '/workspace/file')), 'second');
        await put(vm, '/workspace/other', Buffer.from('other'));
      });
      await withOwnVm(c, { from: dir }, async (vm) => {
        assert.equal(String(await get(vm, '/workspace/file')), 'first');
        assert.equal(await vm.readFile('/workspace/other', limit()), null);
      });
    },
  },
  {
    name: 'a checkpoint of a VM that started from a checkpoint keeps the files of both',
    guest: 'any',
    async run(c) {
      const [first, second] = await twoFolders(c);
      await withOwnVm(c, {}, async (vm) => {
        await put(vm, '/workspace/one', Buffer.from('1'));
        await vm.checkpoint({ dir: first, withSecrets: false }, limit());
      });
      await withOwnVm(c, { from: first }, async (vm) => {
        await put(vm, '/workspace/two', Buffer.from('2'));
        await vm.checkpoint({ dir: second, withSecrets: false }, limit());
      });
      await withOwnVm(c, { from: second }, async (vm) => {
        assert.equal(String(await get(vm, '/workspace/one')), '1');
        assert.equal(String(await get(vm, '/workspace/two')), '2');
      });
    },
  },
  {
    name: 'a checkpoint is refused while a command runs, and made after its end',
    guest: 'any',
    async run(c) {
      const folder = await c.hostDir();
      const dir = join(folder, 'saved');
      await withOwnVm(c, {}, async (vm) => {
        const exec = await vm.exec(request('sleep', ['60']), limit());
        await assertCode(
          vm.checkpoint({ dir, withSecrets: false }, limit()),
          'vm/busy',
          'a checkpoint beside a command',
        );
        assert.deepEqual(await readdir(folder), []);
        await exec.signal('SIGKILL');
        await exec.wait(limit());
        await vm.checkpoint({ dir, withSecrets: false }, limit());
      });
    },
  },
  {
    name: 'a checkpoint never replaces another one',
    guest: 'any',
    async run(c) {
      const folder = await c.hostDir();
      const dir = join(folder, 'saved');
      await withOwnVm(c, {}, async (vm) => {
        const record = await vm.checkpoint({ dir, withSecrets: false }, limit());
        await assertCode(vm.checkpoint({ dir, withSecrets: false }, limit()), 'store/io', 'an existing folder');
        assert.deepEqual(parseCheckpoint(await readFile(join(dir, 'checkpoint.json'), 'utf8')), record);
        const nowhere = join(folder, 'none', 'saved');
        await assertCode(vm.checkpoint({ dir: nowhere, withSecrets: false }, limit()), 'store/io', 'no such folder');
        assert.deepEqual(await readdir(folder), ['saved']);
      });
    },
  },
  {
    name: 'a smaller disk, another image and a damaged checkpoint are refused before the launch, with both values',
    guest: 'any',
    async run(c) {
      const dir = join(await c.hostDir(), 'saved');
      await withOwnVm(c, {}, async (vm) => await vm.checkpoint({ dir, withSecrets: false }, limit()));
      const sha256 = 'ab'.repeat(32);
      await assertUnfit(c, { from: dir, diskMib: 255 }, ['256 MiB', '255 MiB', 'disk_mb']);
      await assertUnfit(c, { from: dir, image: { kind: 'disk', sha256 } }, ['base', sha256]);
      await assertUnfit(c, { from: `${dir}-none` }, [`${dir}-none`]);
      const path = join(dir, 'checkpoint.json');
      const record = JSON.parse(await readFile(path, 'utf8')) as CheckpointRecord;
      await writeFile(path, JSON.stringify({ ...record, vmm: c.backend.name === 'mock' ? 'qemu' : 'mock' }));
      await assertUnfit(c, { from: dir }, ['mock']);
      await writeFile(path, JSON.stringify(record).slice(0, 50));
      await assertUnfit(c, { from: dir }, ['not JSON']);
    },
  },
  {
    name: 'folders outside the own ones of the user are in the checkpoint, and the next VM makes more of them',
    guest: 'any',
    async run(c) {
      const [first, second] = await twoFolders(c);
      await withOwnVm(c, {}, async (vm) => {
        await put(vm, '/srv/made/deep/file', Buffer.from('one'));
        // The image has this folder, which belongs to root and is empty.
        await put(vm, '/mnt/file', Buffer.from('four'));
        await vm.checkpoint({ dir: first, withSecrets: false }, limit());
      });
      await withOwnVm(c, { from: first }, async (vm) => {
        assert.equal(String(await get(vm, '/srv/made/deep/file')), 'one');
        assert.equal(String(await get(vm, '/mnt/file')), 'four');
        await put(vm, '/srv/made/deep/more', Buffer.from('two'));
        await put(vm, '/data/file', Buffer.from('three'));
        await vm.checkpoint({ dir: second, withSecrets: false }, limit());
      });
      await withOwnVm(c, { from: second }, async (vm) => {
        assert.equal(String(await get(vm, '/srv/made/deep/file')), 'one');
        assert.equal(String(await get(vm, '/srv/made/deep/more')), 'two');
        assert.equal(String(await get(vm, '/data/file')), 'three');
      });
    },
  },
  {
    name: 'a VM from a checkpoint has the modes and links of its files, and nothing of memory and processes',
    guest: 'real',
    async run(c) {
      const dir = join(await c.hostDir(), 'saved');
      await withOwnVm(c, {}, async (vm) => {
        await textOf(
          vm,
          script(`
            cd /workspace && mkdir -m 700 private && echo x > private/file && ln -s private/file link
            chmod 750 /home/sandbox && echo x > /dev/shm/gone && echo key > /run/credentials/gone
            (sleep 1000 & echo started)
          `),
        );
        await vm.checkpoint({ dir, withSecrets: true }, limit());
      });
      await withOwnVm(c, { from: dir }, async (vm) => {
        const found = await textOf(
          vm,
          script(`
            stat -c %a:%u /workspace/private /home/sandbox /tmp && readlink /workspace/link && cat /workspace/link
            ls -A /dev/shm /run/credentials | grep gone; ps | grep -c 'sleep 100[0]' || true
          `),
        );
        assert.deepEqual(found.split('\n'), ['700:1000', '750:1000', '1777:1000', 'private/file', 'x', '0']);
      });
    },
  },
  {
    name: 'VMs of one checkpoint have random numbers and boot ids of their own, and the time of the host',
    guest: 'real',
    async run(c) {
      const dir = join(await c.hostDir(), 'saved');
      const ids = `
        cat /proc/sys/kernel/random/boot_id /proc/sys/kernel/random/uuid
        head -c 16 /dev/urandom | od -An -tx1
      `;
      const source = await withOwnVm(c, {}, async (vm) => {
        await vm.checkpoint({ dir, withSecrets: false }, limit());
        return await textOf(vm, script(ids));
      });
      const seen = new Set(source.split('\n'));
      for (let clone = 0; clone < 2; clone++)
        await withOwnVm(c, { from: dir }, async (vm) => {
          for (const id of (await textOf(vm, script(ids))).split('\n')) {
            assert.ok(!seen.has(id), id);
            seen.add(id);
          }
          const beforeS = Math.floor(Date.now() / 1000);
          const guestS = Number(await textOf(vm, script('date +%s')));
          assert.ok(guestS >= beforeS - 1 && guestS <= Date.now() / 1000 + 1, `${guestS} at ${beforeS}`);
        });
      assert.equal(seen.size, 9);
    },
  },
  {
    name: 'a larger disk has room for more than the checkpoint could hold',
    guest: 'real',
    async run(c) {
      const dir = join(await c.hostDir(), 'saved');
      await withOwnVm(c, { diskMib: 64 }, async (vm) => {
        await put(vm, '/workspace/kept', Buffer.from('kept'));
        const record = await vm.checkpoint({ dir, withSecrets: false }, limit());
        assert.equal(record.diskMib, 64);
      });
      // The last group of blocks of 385 MiB is too small for the file system, which leaves it out.
      for (const [diskMib, leastMib] of [
        [65, 50],
        [300, 270],
        [385, 360],
      ] as const)
        await withOwnVm(c, { from: dir, diskMib }, async (vm) => {
          const totalKib = Number(await textOf(vm, script("df -k /workspace | awk 'NR == 2 {print $2}'")));
          assert.ok(totalKib >= leastMib * 1024, `${totalKib} KiB of ${diskMib} MiB`);
          if (diskMib === 300)
            await textOf(vm, script('dd if=/dev/zero of=/workspace/large bs=1M count=200 2>&1 && sync'));
          assert.equal(String(await get(vm, '/workspace/kept')), 'kept');
        });
    },
  },
  {
    name: 'a mount does not follow a link that a user left in the checkpoint',
    guest: 'real',
    async run(c) {
      const dir = join(await c.hostDir(), 'saved');
      await withOwnVm(c, {}, async (vm) => {
        await textOf(vm, script('ln -s /etc /workspace/link && mkdir /workspace/real && ln -s real /workspace/inner'));
        await vm.checkpoint({ dir, withSecrets: false }, limit());
      });
      for (const guestPath of ['/workspace/link', '/workspace/link/new', '/workspace/inner/new'])
        await assertCode(
          withOwnVm(c, { from: dir, mounts: [{ hostPath: c.mountedDir, guestPath, mode: 'ro' }] }, async () => {}),
          'vm/refused',
          guestPath,
        );
      const mounts = [{ hostPath: c.mountedDir, guestPath: '/workspace/real/new', mode: 'ro' }] as const;
      await withOwnVm(c, { from: dir, mounts }, async (vm) => {
        assert.match(await textOf(vm, request('cat', ['/workspace/inner/new/hello.txt'])), /hello/);
      });
    },
  },
  {
    name: 'a checkpoint that is aborted or too slow leaves nothing, and its VM writes again',
    guest: 'real',
    async run(c) {
      const folder = await c.hostDir();
      const dir = join(folder, 'saved');
      await withOwnVm(c, { diskMib: 512 }, async (vm) => {
        await textOf(vm, script('dd if=/dev/urandom of=/workspace/large bs=1M count=160 2>&1'));
        await assertCode(
          vm.checkpoint({ dir, withSecrets: false, freezeLimitMs: 1 }, limit()),
          'vm/checkpoint-failed',
          'a freeze of one millisecond',
        );
        const stop = new AbortController();
        const making = vm.checkpoint({ dir, withSecrets: false }, stop.signal);
        await new Promise((resolve) => setTimeout(resolve, 30));
        stop.abort(new Error('enough'));
        await assert.rejects(making);
        assert.deepEqual(await readdir(folder), []);
        // A command does not wait for a checkpoint, which either was complete before or is refused.
        const raced = vm.checkpoint({ dir: join(folder, 'raced'), withSecrets: false }, limit()).then(
          () => 'made',
          (error: unknown) => (isCodedError(error) ? error.code : String(error)),
        );
        const startedAtMs = Date.now();
        await textOf(vm, script('echo begun > /workspace/begun && sync'));
        assert.ok(Date.now() - startedAtMs < 15_000, 'the command waited for the checkpoint');
        assert.match(await raced, /^(?:made|vm\/busy)$/);
        await deleteCheckpoint(join(folder, 'raced'));
        assert.deepEqual(await readdir(folder), []);
        await textOf(vm, script('echo again > /workspace/again && sync'));
        await vm.checkpoint({ dir, withSecrets: false }, limit());
      });
      await withOwnVm(c, { from: dir, diskMib: 512 }, async (vm) => {
        assert.equal(String(await get(vm, '/workspace/again')), 'again\n');
      });
    },
  },
  {
    name: 'a deleted checkpoint harms no VM that started from it',
    guest: 'any',
    async run(c) {
      const folder = await c.hostDir();
      const dir = join(folder, 'saved');
      const body = countingBytes(2 * MIB);
      await withOwnVm(c, {}, async (vm) => {
        await put(vm, '/workspace/kept', body);
        await vm.checkpoint({ dir, withSecrets: false }, limit());
      });
      await withOwnVm(c, { from: dir }, async (vm) => {
        await deleteCheckpoint(dir);
        assert.deepEqual(await readdir(folder), []);
        assertSameBytes(await get(vm, '/workspace/kept'), body, 'after the deletion');
        await put(vm, '/workspace/new', body);
        await deleteCheckpoint(dir);
      });
    },
  },
];

async function put(vm: Sandbox, path: string, body: Uint8Array): Promise<void> {
  await vm.writeFile(path, body.length, chunks(body), limit());
}

async function get(vm: Sandbox, path: string): Promise<Buffer> {
  const file = await vm.readFile(path, limit());
  assert.ok(file !== null, `${path} does not exist`);
  return await collect(file.bytes);
}

async function twoFolders(c: Conformance): Promise<readonly [string, string]> {
  const folder = await c.hostDir();
  await mkdir(join(folder, 'both'));
  return [join(folder, 'both', 'first'), join(folder, 'both', 'second')];
}

/** Asserts that a launch is refused with these texts. */
async function assertUnfit(c: Conformance, plan: Partial<LaunchSpec>, texts: readonly string[]): Promise<void> {
  const key = c.newKey();
  const spec = { ...c.plan, mounts: [], ...plan };
  let refusal: unknown = null;
  try {
    await c.backend.launch(key, spec, limit());
  } catch (error) {
    refusal = error;
  }
  await c.backend.release(key);
  assert.ok(isCodedError(refusal) && refusal.code === 'vm/checkpoint-unfit', String(refusal));
  for (const text of texts) assert.ok(refusal.message.includes(text), `${text}: ${refusal.message}`);
}
