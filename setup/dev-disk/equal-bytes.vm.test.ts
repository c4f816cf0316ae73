/** The disk of the dev image is the same, byte for byte, wherever and by whomever it is made. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, createReadStream, mkdirSync, mkdtempSync, chownSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { isRoot } from '../apt.ts';
import { makeContext, pieceSource } from '../context.ts';
import { readEnvironment } from '../environment.ts';
import { packageRoot } from '../package-root.ts';
import type { SetupContext } from '../piece.ts';
import { lockDevPackages, makeDevDisk } from './dev-disk.ts';
import type { PackageLock } from './debian-packages.ts';

const MAKE_LIMIT_MS = 600_000;
const USER = '1000';

let folder: string;
let context: SetupContext;
let lock: PackageLock;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-equal-'));
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

/** As another user, who has no rights that this process has. */
function makeAsUser(into: string): void {
  const setup = join(packageRoot(), 'dist', 'setup');
  const script = `
    const [packages, lock, into] = process.argv.slice(1);
    const { readEnvironment } = await import('${setup}/environment.js');
    const { makeContext, pieceSource } = await import('${setup}/context.js');
    const { makeDevDisk } = await import('${setup}/dev-disk/dev-disk.js');
    const base = await makeContext(readEnvironment());
    await makeDevDisk({ ...base, need: pieceSource(base, false) }, JSON.parse(lock).packages, packages, into);`;
  const node = [process.execPath, '--input-type=module', '-e', script];
  const user = ['--reuid', USER, '--regid', USER, '--clear-groups', '--no-new-privs', '--'];
  execFileSync('setpriv', [...user, ...node, join(folder, 'packages'), JSON.stringify(lock), into], {
    env: { ...process.env, HOME: into, VOIDBOX_CACHE_DIR: join(into, 'cache') },
    timeout: MAKE_LIMIT_MS,
  });
}

it('in two folders, and as root and a normal user', { timeout: 3 * MAKE_LIMIT_MS }, async () => {
  const [first, second] = [newFolder('first'), newFolder('second')];
  await makeDevDisk(context, lock.packages, join(folder, 'packages'), first);
  const hash = await hashOf(first);
  if (isRoot()) {
    chownSync(second, Number(USER), Number(USER));
    makeAsUser(second);
  } else await makeDevDisk(context, lock.packages, join(folder, 'packages'), second);
  expect(await hashOf(second)).toBe(hash);
});
