/** Files in and out. Files from a guest are hostile until they have been checked. */
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { OWNERS_FILE_MODE, type Sandbox } from '../../../activities/ports/sandbox.ts';
import { GUEST_CREDENTIALS } from '../../../domain/agent/credentials.ts';
import { readTar } from '../../../tar/read.ts';
import { writeTar, type TarItem } from '../../../tar/write.ts';
import {
  assertCode,
  assertSameBytes,
  chunks,
  collect,
  countingBytes,
  limit,
  request,
  run,
  script,
  textOf,
  type Behaviour,
} from './behaviour.ts';

const MIB = 1024 * 1024;
/** The least bytes that go through the mailbox, in sectors of 512 bytes. */
const LEAST_MAIL_SECTORS = 64;
let folderCount = 0;

function newGuestDir(): string {
  folderCount += 1;
  return `/workspace/files-${folderCount}`;
}

/** Returns how many sectors of its mailbox the guest has read and written since it booted. */
async function readMailboxSectors(sandbox: Sandbox): Promise<{ readonly read: number; readonly written: number }> {
  // No process for each disk: the lab takes long to start one. A serial number has no end of line.
  const find =
    'for disk in /sys/block/*; do read -r serial < $disk/serial; [ "$serial" = voidbox-mailbox ] && read -r stat < $disk/stat && echo $stat; serial=; done; true';
  const fields = (await textOf(sandbox, script(find))).trim().split(/\s+/).map(Number);
  assert.ok(fields.length > 6, 'the guest has a mailbox');
  return { read: fields[2]!, written: fields[6]! };
}

export const FILES: readonly Behaviour[] = [
  {
    name: 'a file goes in and comes out again, byte for byte',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      const dir = newGuestDir();
      for (const body of [countingBytes(5 * MIB + 3), Buffer.alloc(0), Buffer.from('x')]) {
        await sandbox.writeFile(`${dir}/deep/er/file`, body.length, chunks(body), limit());
        const file = await sandbox.readFile(`${dir}/deep/er/file`, limit());
        assert.equal(file?.sizeBytes, body.length);
        assertSameBytes(await collect(file.bytes), body, 'file');
      }
      assert.equal(await textOf(sandbox, request('cat', [`${dir}/deep/er/file`])), 'x');
    },
  },
  {
    name: 'bulk data goes through the mailbox in both directions',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const before = await readMailboxSectors(sandbox);
      const path = `${newGuestDir()}/bulk`;
      const body = countingBytes(MIB);
      await sandbox.writeFile(path, body.length, chunks(body), limit());
      const file = await sandbox.readFile(path, limit());
      assertSameBytes(await collect(file!.bytes), body, 'file');
      const after = await readMailboxSectors(sandbox);
      assert.ok(after.read - before.read >= LEAST_MAIL_SECTORS, 'the guest reads what comes in');
      assert.ok(after.written - before.written >= LEAST_MAIL_SECTORS, 'the guest writes what goes out');
    },
  },
  {
    name: 'what is no regular file reads as absent',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      assert.equal(await sandbox.readFile('/workspace/none', limit()), null);
      assert.equal(await sandbox.readFile('/workspace', limit()), null);
      assert.equal(await sandbox.getTar('/workspace/none', limit()), null);
    },
  },
  {
    name: 'a file that is put belongs to the commands',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const dir = newGuestDir();
      await sandbox.writeFile(`${dir}/sub/file`, 2, chunks(Buffer.from('x\n')), limit());
      assert.equal(
        await textOf(
          sandbox,
          script(`stat -c '%u:%g %a' ${dir}/sub/file && echo y >> ${dir}/sub/file && touch ${dir}/sub/other`),
        ),
        '1000:1000 644',
      );
    },
  },
  {
    name: 'credentials are files of mode 0600 in memory, for the user of the commands, gone with the VM',
    guest: 'real',
    async run(c) {
      const key = c.newKey();
      const first = await c.backend.launch(key, c.plan, limit());
      const path = `${GUEST_CREDENTIALS}/canary.json`;
      const secret = Buffer.from(`canary-${'5e'.repeat(20)}`);
      await first.writeFile(path, secret.length, chunks(secret), limit(), OWNERS_FILE_MODE);
      assert.equal(
        await textOf(
          first,
          script(
            `stat -c '%u:%g %a' ${GUEST_CREDENTIALS} ${path} && grep " ${GUEST_CREDENTIALS} " /proc/mounts | cut -d ' ' -f 3 && cat ${path}`,
          ),
        ),
        `1000:1000 700\n1000:1000 600\ntmpfs\n${secret.toString()}`,
      );
      // The new file replaces a link, and no other file of the system's folders is written.
      await run(first, script(`ln -sf /workspace/elsewhere ${path}`));
      await first.writeFile(path, secret.length, chunks(secret), limit(), OWNERS_FILE_MODE);
      assert.equal(await first.readFile('/workspace/elsewhere', limit()), null);
      for (const other of [`${GUEST_CREDENTIALS}/below/file`, '/run/file', '/etc/file', '/file'])
        await assert.rejects(first.writeFile(other, 1, chunks(Buffer.from('x')), limit()), other);
      const large = countingBytes(2 * MIB);
      await assert.rejects(first.writeFile(path, large.length, chunks(large), limit(), OWNERS_FILE_MODE));
      await c.backend.release(key);
      const next = await c.backend.launch(c.newKey(), c.plan, limit());
      assert.equal(await next.readFile(path, limit()), null);
      await next.stop();
    },
  },
  {
    name: 'a source that is shorter or longer than it said is an error, and leaves no file',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      const path = `${newGuestDir()}/file`;
      await assert.rejects(sandbox.writeFile(path, 10, chunks(Buffer.from('short')), limit()));
      await assert.rejects(sandbox.writeFile(path, 2, chunks(Buffer.from('long')), limit()));
      assert.equal(await sandbox.readFile(path, limit()), null);
    },
  },
  {
    name: 'a folder goes through tar with its modes, links and long names',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      const dir = newGuestDir();
      const long = `${'long-name-'.repeat(11)}/${'deeper-'.repeat(12)}.txt`;
      const items: TarItem[] = [
        { kind: 'dir', path: 'bin', mode: 0o755 },
        { kind: 'file', path: 'bin/tool', mode: 0o755, body: Buffer.from('#!/bin/sh\necho tool\n') },
        { kind: 'file', path: 'data.txt', mode: 0o644, body: countingBytes(200_000) },
        { kind: 'file', path: 'empty', mode: 0o600, body: Buffer.alloc(0) },
        { kind: 'dir', path: long.split('/')[0] as string, mode: 0o755 },
        { kind: 'file', path: long, mode: 0o644, body: Buffer.from('long') },
        { kind: 'symlink', path: 'bin/link', target: '../data.txt' },
      ];
      await sandbox.putTar(dir, writeTar(items), limit());
      const seen = new Map<string, string>();
      for await (const entry of readTar((await sandbox.getTar(dir, limit())) ?? chunks(Buffer.alloc(0)), 16 * MIB)) {
        seen.set(
          entry.path.replace(/^\.\//, '').replace(/\/$/, ''),
          `${entry.kind} ${entry.kind === 'symlink' ? entry.linkTarget : entry.kind === 'file' ? `${entry.mode.toString(8)} ${entry.body.toString('latin1')}` : ''}`,
        );
      }
      seen.delete('');
      seen.delete('.');
      const expected = new Map(
        items.map((item) => [
          item.path,
          `${item.kind} ${item.kind === 'symlink' ? item.target : item.kind === 'file' ? `${item.mode.toString(8)} ${Buffer.from(item.body).toString('latin1')}` : ''}`,
        ]),
      );
      assert.deepEqual([...seen.keys()].sort(), [...expected.keys()].sort());
      for (const [path, what] of expected) assert.equal(seen.get(path), what, path);
    },
  },
  {
    name: 'what the command may not read leaves with its mode, in a file and in a folder',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const dir = newGuestDir();
      await textOf(
        sandbox,
        script(`mkdir -p ${dir}/tree/dark && cd ${dir} && echo x > np && echo y > tree/dark/file
          chmod 000 np tree/dark/file tree/dark`),
      );
      const file = await sandbox.readFile(`${dir}/np`, limit());
      assert.equal((await collect(file!.bytes)).toString(), 'x\n');
      const seen: string[] = [];
      for await (const entry of readTar((await sandbox.getTar(`${dir}/tree`, limit()))!, MIB))
        seen.push(`${entry.path} ${(entry.mode & 0o777).toString(8)}`);
      assert.deepEqual(seen, ['dark 0', 'dark/file 0']);
    },
  },
  {
    name: 'a single file comes out as a tar of one entry',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      const path = `${newGuestDir()}/one.txt`;
      await sandbox.writeFile(path, 3, chunks(Buffer.from('one')), limit());
      const bodies: string[] = [];
      for await (const entry of readTar((await sandbox.getTar(path, limit())) ?? chunks(Buffer.alloc(0)), MIB))
        bodies.push(entry.body.toString());
      assert.deepEqual(bodies, ['one']);
    },
  },
  {
    name: 'a hostile tar puts nothing outside its folder',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      const file = (path: string): TarItem => ({ kind: 'file', path, mode: 0o644, body: Buffer.from('escaped') });
      const tars: readonly (readonly TarItem[])[] = [
        [file('../escaped')],
        [file('a/../../escaped')],
        [{ kind: 'symlink', path: 'out', target: '/workspace' }, file('out/escaped')],
        [{ kind: 'symlink', path: 'up', target: '..' }, file('up/escaped')],
        [{ kind: 'hardlink', path: 'hard', target: '/etc/passwd' }],
        [{ kind: 'device', path: 'disk', major: 254, minor: 0 }],
      ];
      for (const [index, items] of tars.entries()) {
        const dir = newGuestDir();
        await assertCode(sandbox.putTar(dir, writeTar(items), limit()), 'vm/guest-error', `tar ${index}`);
        assert.equal(await sandbox.readFile('/workspace/escaped', limit()), null, `tar ${index} escaped`);
        assert.equal(await sandbox.readFile(`${dir}/hard`, limit()), null, `tar ${index} linked`);
      }
    },
  },
  {
    name: 'a tar that is cut short is an error',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      const whole = await collect(
        writeTar([{ kind: 'file', path: 'file', mode: 0o644, body: countingBytes(100_000) }]),
      );
      await assert.rejects(sandbox.putTar(newGuestDir(), chunks(whole.subarray(0, 50_000)), limit()));
      assert.equal(await textOf(sandbox, request('echo', ['after'])), 'after');
    },
  },
  {
    name: 'what may not leave a guest does not: links outward, devices, pipes',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      const plants = [
        'ln -s /etc/passwd leak',
        'ln -s ../../.. leak',
        'mkdir d && ln -s ../../../etc/shadow d/leak',
        'mkfifo pipe',
        'mkdir a && ln -s a/../../.. leak',
      ];
      for (const plant of plants) {
        const dir = newGuestDir();
        await textOf(sandbox, script(`mkdir -p ${dir} && cd ${dir} && ${plant} && echo ok > good`));
        const folder = sandbox.getFolder(dir, limit()).then(async (bytes) => collect(bytes ?? chunks(Buffer.alloc(0))));
        await assertCode(folder, 'stage/bad-output', `getFolder after ${plant}`);
        const tar = sandbox.getTar(dir, limit()).then(async (bytes) => collect(bytes ?? chunks(Buffer.alloc(0))));
        await assertCode(tar, 'stage/bad-output', `getTar after ${plant}`);
      }
      assert.equal(await textOf(sandbox, request('echo', ['after'])), 'after');
    },
  },
  {
    name: 'a folder is no file and nothing that is absent',
    guest: 'any',
    async run(c) {
      const sandbox = await c.shared();
      const dir = newGuestDir();
      await sandbox.writeFile(`${dir}/file`, 1, chunks(Buffer.from('x')), limit());
      assert.equal(await sandbox.getFolder(`${dir}/file`, limit()), null);
      assert.equal(await sandbox.getFolder(`${dir}/none`, limit()), null);
      const bytes = await collect((await sandbox.getFolder(dir, limit())) ?? chunks(Buffer.alloc(0)));
      assert.ok(bytes.includes('file'));
    },
  },
  {
    name: 'a read-only mount shows the host folder',
    guest: 'any',
    async run(c) {
      assert.equal(await textOf(await c.shared(), request('cat', ['/data/hello.txt'])), 'hello from the host');
    },
  },
  {
    name: 'a mount that the guest refuses is reported by its path, and not as a lost VM',
    guest: 'real',
    async run(c) {
      const key = c.newKey();
      const mounts = [{ hostPath: c.mountedDir, guestPath: '/lib32', mode: 'ro' }] as const;
      await assertCode(c.backend.launch(key, { ...c.plan, mounts }, limit()), 'vm/refused', 'the first launch');
      await assert.rejects(c.backend.launch(key, { ...c.plan, mounts }, limit()), /\/lib32/);
      await c.backend.release(key);
    },
  },
  {
    name: 'a read-only mount is live and cannot be written',
    guest: 'real',
    async run(c) {
      const sandbox = await c.shared();
      await writeFile(join(c.mountedDir, 'later.txt'), 'later');
      assert.equal(await textOf(sandbox, request('cat', ['/data/later.txt'])), 'later');
      assert.notEqual((await run(sandbox, script('echo x > /data/hello.txt'))).exit.exitCode, 0);
      assert.notEqual(
        (await run(sandbox, script('echo x > /data/new || mkdir /data/dir || rm /data/hello.txt'))).exit.exitCode,
        0,
      );
      assert.equal(await readFile(join(c.mountedDir, 'hello.txt'), 'utf8'), 'hello from the host\n');
      assert.deepEqual((await readdir(c.mountedDir)).sort(), ['hello.txt', 'later.txt']);
    },
  },
];
