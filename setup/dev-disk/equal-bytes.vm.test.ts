/** The disk of the dev image is the same, byte for byte, in whichever folder and by whichever user it is made. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  createReadStream,
  mkdirSync,
  mkdtempSync,
  opendirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { isRoot } from '../pieces/apt.ts';
import { makeContext, pieceSource } from '../pieces/context.ts';
import { readEnvironment } from '../environment.ts';
import { SmallDisk } from '../../test/rig/vms/small-disk.ts';
import { findPackageRoot } from '../package-root.ts';
import type { SetupContext } from '../pieces/piece.ts';
import { lockDevPackages, makeDevDisk } from './dev-disk.ts';
import type { PackageLock } from './debian-packages.ts';

const MAKE_LIMIT_MS = 600_000;
const USER = '1000';

let folder: string;
let context: SetupContext;
let lock: PackageLock;
beforeAll(async () => {
  // On a disk, because `SmallDisk` is memory and both have to list their files in different orders.
  folder = mkdtempSync('/var/tmp/voidbox-equal-');
  chmodSync(folder, 0o755);
  const base = await makeContext(readEnvironment(), (line) => console.error(line));
  context = { ...base, need: pieceSource(base, false) };
  lock = await lockDevPackages(context, folder);
}, MAKE_LIMIT_MS);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function hashOf(into: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(join(into, 'root.ext4')), hash);
  return hash.digest('hex');
}

function newFolder(name: string): string {
  const into = join(folder, name);
  mkdirSync(into);
  return into;
}

/**
 * Makes the disk as a user without the rights of this process. The checkout and Node may be below a folder that this user
 * cannot enter, such as /root. So a private mount namespace shows both below a folder that the user can enter.
 */
function makeAsUser(into: string): void {
  const checkout = newFolder('checkout');
  const node = join(folder, 'node');
  writeFileSync(node, '');
  const script = `
    const [packages, lock, into] = process.argv.slice(1);
    const { readEnvironment } = await import('${checkout}/dist/setup/environment.js');
    const { makeContext, pieceSource } = await import('${checkout}/dist/setup/pieces/context.js');
    const { makeDevDisk } = await import('${checkout}/dist/setup/dev-disk/dev-disk.js');
    const base = await makeContext(readEnvironment());
    await makeDevDisk({ ...base, need: pieceSource(base, false) }, JSON.parse(lock).packages, packages, into);`;
  const mounts = 'mount --bind "$1" "$2" && mount --bind "$3" "$4" && cd / && shift 4 && exec "$@"';
  const bound = ['-c', mounts, 'sh', findPackageRoot(), checkout, process.execPath, node];
  const user = ['setpriv', '--reuid', USER, '--regid', USER, '--clear-groups', '--no-new-privs', '--'];
  const make = [node, '--input-type=module', '-e', script, join(folder, 'packages'), JSON.stringify(lock), into];
  execFileSync('unshare', ['--mount', 'sh', ...bound, ...user, ...make], {
    env: { ...process.env, HOME: into, VOIDBOX_CACHE_DIR: join(into, 'cache') },
    timeout: MAKE_LIMIT_MS,
  });
}

/** Returns the order in which a folder lists its files. */
function orderIn(into: string): string {
  const probe = join(into, 'probe');
  mkdirSync(probe);
  for (let at = 0; at < 50; at += 1) writeFileSync(join(probe, String(at)), '');
  const names: string[] = [];
  const opened = opendirSync(probe);
  for (let entry = opened.readSync(); entry !== null; entry = opened.readSync()) names.push(entry.name);
  opened.closeSync();
  rmSync(probe, { recursive: true });
  return names.join(' ');
}

it(
  'in two folders, and as root and a normal user on a file system that lists its files in another order',
  { timeout: 3 * MAKE_LIMIT_MS },
  async () => {
    const [first, second] = [newFolder('first'), newFolder('second')];
    // A user who may not mount a file system has two folders with the same order.
    using _other = isRoot() ? new SmallDisk(second, 4_096) : null;
    expect(isRoot() && orderIn(second) === orderIn(first)).toBe(false);
    await makeDevDisk(context, lock.packages, join(folder, 'packages'), first);
    const hash = await hashOf(first);
    if (isRoot()) {
      chownSync(second, Number(USER), Number(USER));
      makeAsUser(second);
    } else await makeDevDisk(context, lock.packages, join(folder, 'packages'), second);
    expect(await hashOf(second)).toBe(hash);
  },
);
