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
