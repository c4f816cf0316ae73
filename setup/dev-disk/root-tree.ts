/** The tree of the dev image: packages unpacked, and what their maintainer scripts would have done as far as a guest needs it. */
import { existsSync } from 'node:fs';
import { chmod, lstat, lutimes, mkdir, open, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isRoot } from '../pieces/apt.ts';
import type { SetupContext } from '../pieces/piece.ts';
import { lastLines, runProgram } from '../pieces/run-program.ts';
import { SetupError } from '../setup-error.ts';

const UNPACK_TIMEOUT_MS = 600_000;
/** Time of all files: what packages were built at is not what an image is equal by. */
export const FILE_TIME_SECONDS = 1_750_000_000;

/** Since Debian 12 everything lies in /usr; packages still name the old places. */
const MERGED = ['bin', 'sbin', 'lib', 'lib64'];
/** Mount points of the guest, and of its scratch disk. */
const FOLDERS: Readonly<Record<string, number>> = {
  dev: 0o755,
  'etc/ssl/certs': 0o755,
  'home/sandbox': 0o755,
  mnt: 0o755,
  opt: 0o755,
  proc: 0o755,
  root: 0o700,
  run: 0o755,
  sys: 0o755,
  tmp: 0o755,
  'var/tmp': 0o755,
  workspace: 0o755,
};
/** What packages leave to their scripts. */
const LINKS: Readonly<Record<string, string>> = {
  'usr/bin/awk': 'mawk',
  'usr/bin/pager': 'less',
  'usr/bin/python': 'python3',
  'usr/bin/sh': 'dash',
  'usr/bin/which': 'which.debianutils',
  'etc/localtime': '/usr/share/zoneinfo/Etc/UTC',
};
const TEXT_FILES: Readonly<Record<string, string>> = {
  'etc/hostname': 'voidbox\n',
  'etc/hosts': '127.0.0.1 localhost voidbox\n',
  'etc/shells': '/bin/sh\n/bin/bash\n',
  // A repository may come with files of another user.
  'etc/gitconfig': '[safe]\n\tdirectory = *\n',
};
/** Nobody reads them in a guest. Licences stay: they lie in the folders of their packages. */
const LEFT_OUT = ['usr/share/man', 'usr/share/info', 'usr/share/locale', 'usr/share/lintian', 'var/cache/ldconfig'];

/** @param files  the packages' files, in the order of unpacking */
export async function makeRootTree(context: SetupContext, files: readonly string[], root: string): Promise<void> {
  await unpack(context, files, root);
  for (const path of LEFT_OUT) await rm(join(root, path), { recursive: true, force: true });
  await removeDocs(join(root, 'usr/share/doc'));
  for (const [path, mode] of Object.entries(FOLDERS)) {
    await mkdir(join(root, path), { recursive: true });
    await chmod(join(root, path), mode);
  }
  for (const [path, target] of Object.entries(LINKS))
    if (!(await exists(join(root, path)))) await symlink(target, join(root, path));
  for (const [path, text] of Object.entries(TEXT_FILES)) await write(join(root, path), text);
  await writeUsers(root);
  await writeCertificates(root);
  await runWithin(context, root, ['/usr/sbin/ldconfig', '-X']);
  // A root that users cannot write gets no compiled modules later.
  if (existsSync(join(root, 'usr/bin/python3')))
    await runWithin(context, root, [
      '/usr/bin/python3',
      '-m',
      'compileall',
      '-q',
      '--invalidation-mode',
      'unchecked-hash',
      '-x',
      '/(?:test|tests|idle_test|lib2to3)/',
      '/usr/lib/python3',
      ...(await pythonFolders(root)),
    ]);
  await rm(join(root, 'var/cache/ldconfig'), { recursive: true, force: true });
  await settle(root);
}

async function unpack(context: SetupContext, files: readonly string[], root: string): Promise<void> {
  for (const name of MERGED) {
    await mkdir(join(root, 'usr', name), { recursive: true });
    await symlink(`usr/${name}`, join(root, name));
  }
  // One shell for all: a pipe for each package. Owners do not matter, all of them become root.
  const script = `umask 022; for file; do dpkg-deb --fsys-tarfile "$file" | tar -x -p --no-same-owner --keep-directory-symlink -C "$ROOT" || exit 1; done`;
  const result = await runProgram(context.env, 'bash', ['-o', 'pipefail', '-c', script, 'unpack', ...files], {
    variables: { ROOT: root },
    timeoutMs: UNPACK_TIMEOUT_MS,
  });
  if (result.exitCode !== 0)
    throw new SetupError(
      `The packages of the dev image cannot be unpacked:\n${lastLines(result)}`,
      'Check the free space of the cache folder.',
    );
}

async function removeDocs(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []))
    if (!entry.isDirectory() && entry.name !== 'copyright') await rm(join(entry.parentPath, entry.name));
}

/** Users of Debian, and the one that commands run as. */
async function writeUsers(root: string): Promise<void> {
  const master = async (name: string): Promise<string> =>
    (await readFile(join(root, 'usr/share/base-passwd', name), 'utf8')).replaceAll(':*:', ':x:');
  await write(
    join(root, 'etc/passwd'),
    `${await master('passwd.master')}sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/bash\n`,
  );
  await write(join(root, 'etc/group'), `${await master('group.master')}sandbox:x:1000:\n`);
}

/** All authorities of Mozilla's list in one file, where programs look for it. */
async function writeCertificates(root: string): Promise<void> {
  const folder = join(root, 'usr/share/ca-certificates/mozilla');
  const names = (await readdir(folder).catch(() => [])).filter((name) => name.endsWith('.crt')).sort();
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')));
  await write(join(root, 'etc/ssl/certs/ca-certificates.crt'), texts.join(''));
}

async function pythonFolders(root: string): Promise<readonly string[]> {
  return (await readdir(join(root, 'usr/lib')))
    .filter((name) => /^python3\.\d+$/.test(name))
    .sort()
    .map((name) => `/usr/lib/${name}`);
}

/** Runs a program of the tree itself; of the machine it sees nothing. */
async function runWithin(context: SetupContext, root: string, command: readonly string[]): Promise<void> {
  const bwrap = await context.need('bwrap');
  const result = await runProgram(
    context.env,
    bwrap.path,
    [
      ...(isRoot() ? [] : ['--unshare-user', '--uid', '0', '--gid', '0']),
      '--unshare-net',
      '--unshare-pid',
      '--unshare-ipc',
      '--die-with-parent',
      '--clearenv',
      '--setenv',
      'PATH',
      '/usr/sbin:/usr/bin',
      '--setenv',
      'PYTHONHASHSEED',
      '0',
      '--bind',
      root,
      '/',
      '--dev',
      '/dev',
      '--proc',
      '/proc',
      '--chdir',
      '/',
      '--',
      ...command,
    ],
    { timeoutMs: UNPACK_TIMEOUT_MS },
  );
  if (result.exitCode !== 0)
    throw new SetupError(`${command[0]} failed in the dev image:\n${lastLines(result)}`, 'Remove your own packages.');
}

/** One time for everything, and no rights that come with a file: no program of a guest gains any. */
async function settle(root: string): Promise<void> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const paths = ['', ...entries.map((entry) => join(entry.parentPath, entry.name).slice(root.length))];
  // Folders last: what is changed in one changes its time.
  for (const path of paths.toReversed()) {
    const at = join(root, path);
    const stats = await lstat(at);
    if (!stats.isSymbolicLink() && (stats.mode & 0o6000) !== 0) await chmod(at, stats.mode & 0o1777);
    await lutimes(at, FILE_TIME_SECONDS, FILE_TIME_SECONDS);
  }
}

async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null)) !== null;
}

async function write(path: string, text: string): Promise<void> {
  // A file of a package may be a link, or read-only.
  await rm(path, { force: true });
  const file = await open(path, 'wx', 0o644);
  try {
    await writeFile(file, text);
    await file.chmod(0o644);
  } finally {
    await file.close();
  }
}
