import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { enterTestFolder, refuseMemory, removeLeftFolders, withoutTestFolder } from './test-folder.mjs';

const GIB = 1024 ** 3;
const HOST = {
  type: 0x01021994,
  freeBytes: 8 * GIB,
  availableBytes: 16 * GIB,
  mounts: 'tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n',
};

describe('temporary files of tests', () => {
  it.each([
    ['memory with exactly the needed room and size', {}, null],
    ['less room', { freeBytes: 8 * GIB - 1 }, '/dev/shm has 8.0 GiB of room, and 8 are needed'],
    ['less memory', { availableBytes: 16 * GIB - 1 }, '16.0 GiB of memory are available, and 16 are needed'],
    ['a folder on a disk', { type: 0xef53 }, '/dev/shm is no tmpfs'],
    [
      'a mount without programs',
      { mounts: `${HOST.mounts}shm /dev/shm tmpfs rw,noexec 0 0\n` },
      'no program can be started in /dev/shm',
    ],
    ['a mount of another folder without programs', { mounts: `${HOST.mounts}shm /dev tmpfs rw,noexec 0 0\n` }, null],
  ])('%s decides', (_, host, refused) => {
    expect(refuseMemory({ ...HOST, ...host })).toBe(refused);
  });

  it('a TMPDIR of the caller stays, and the reason is printed', () => {
    const env = { TMPDIR: '/var/tmp' };
    const lines: string[] = [];
    enterTestFolder(env, (line) => lines.push(line))();
    expect(env).toEqual({ TMPDIR: '/var/tmp' });
    expect(lines).toEqual(['tests: temporary files lie on the disk, because TMPDIR is /var/tmp']);
  });

  it('only a folder of this user and of a process that is gone is removed', () => {
    const place = mkdtempSync(join(tmpdir(), 'voidbox-left-'));
    const namespace = readlinkSync('/proc/self/ns/pid');
    const put = (name: string, mark: string | null = namespace): void => {
      mkdirSync(join(place, name));
      if (mark !== null) writeFileSync(join(place, name, '.pid-namespace'), mark);
    };
    // No process has an id above 4194304: it is the limit of Linux.
    for (const name of ['vb-4194305', `vb-${process.pid}`, 'vb-', 'vb-x', 'vb--1', 'other']) put(name);
    put('vb-4194306', 'pid:[1]');
    put('vb-4194307', null);
    symlinkSync('other', join(place, 'vb-4194308'));
    const stay = ['other', 'vb-', 'vb--1', 'vb-4194306', 'vb-4194307', 'vb-4194308', `vb-${process.pid}`, 'vb-x'];
    removeLeftFolders(place);
    expect(readdirSync(place).toSorted()).toEqual(stay.toSorted());
    // Only root can give a folder to another user.
    const other = process.getuid?.() === 0 ? join(place, 'vb-4194309') : null;
    if (other !== null) {
      put('vb-4194309');
      chownSync(other, 1_000, 1_000);
    }
    removeLeftFolders(place);
    expect(other === null || existsSync(other)).toBe(true);
    rmSync(place, { recursive: true });
    removeLeftFolders(place);
  });

  it('tests of a disk get the TMPDIR of the caller only', () => {
    expect(withoutTestFolder({ TMPDIR: '/var/tmp', A: '1' })).toEqual({ TMPDIR: '/var/tmp', A: '1' });
    expect(withoutTestFolder({ TMPDIR: `/dev/shm/vb-${process.pid}`, A: '1' })).toEqual({ A: '1' });
  });

  it('a folder in memory is removed at the end, or the reason for the disk is printed', () => {
    const env: NodeJS.ProcessEnv = {};
    const lines: string[] = [];
    const leave = enterTestFolder(env, (line) => lines.push(line));
    const folder = env['TMPDIR'];
    expect(folder === undefined ? lines.length : Number(existsSync(folder))).toBe(1);
    leave();
    expect(env).toEqual({});
    expect(folder !== undefined && existsSync(folder)).toBe(false);
  });
});
