/**
 * Builds the tree of the dev image: unpacks packages, and performs the steps of their maintainer scripts that a guest
 * needs.
 */
import { existsSync } from 'node:fs';
import { chmod, lstat, lutimes, mkdir, open, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isRoot } from '../pieces/apt.ts';
import type { SetupContext } from '../pieces/piece.ts';
import { cutToLastLines, runProgram } from '../pieces/run-program.ts';
import { SetupError } from '../setup-error.ts';

const UNPACK_TIMEOUT_MS = 600_000;
/** The time of all files. The packages' build times would make equal images differ. */
export const FILE_TIME_SECONDS = 1_750_000_000;

/** Since Debian 12 these folders are in /usr; packages still use the old paths. */
const MERGED = ['bin', 'sbin', 'lib', 'lib64'];
/** Mount points of the guest and its scratch disk. */
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
/** Links that the packages' scripts would make. */
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
  // A repository may contain files of another user.
  'etc/gitconfig': '[safe]\n\tdirectory = *\n',
};
/** Files that guests do not need. Licences stay, because they are in the folders of their packages. */
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
  // Users cannot write to the root, so Python's modules must be compiled now.
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
  // One shell unpacks all packages, with a pipe for each. Owners do not matter, because all files become root's.
  const script = `umask 022; for file; do dpkg-deb --fsys-tarfile "$file" | tar -x -p --no-same-owner --keep-directory-symlink -C "$ROOT" || exit 1; done`;
  const result = await runProgram(context.env, 'bash', ['-o', 'pipefail', '-c', script, 'unpack', ...files], {
    variables: { ROOT: root },
    timeoutMs: UNPACK_TIMEOUT_MS,
  });
  if (result.exitCode !== 0)
    throw new SetupError(
      `The packages of the dev image cannot be unpacked:\n${cutToLastLines(result)}`,
      'Check the free space of the cache folder.',
    );
}

async function removeDocs(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []))
    if (!entry.isDirectory() && entry.name !== 'copyright') await rm(join(entry.parentPath, entry.name));
}

/** Writes the users of Debian, and the user of commands. */
async function writeUsers(root: string): Promise<void> {
  const master = async (name: string): Promise<string> =>
    (await readFile(join(root, 'usr/share/base-passwd', name), 'utf8')).replaceAll(':*:', ':x:');
  await write(
    join(root, 'etc/passwd'),
    `${await master('passwd.master')}sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/bash\n`,
  );
  await write(join(root, 'etc/group'), `${await master('group.master')}sandbox:x:1000:\n`);
}

/** Writes all authorities of Mozilla's list into the file that programs read. */
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

/** Runs a program of the tree itself, which sees no file of the machine. */
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
    throw new SetupError(
      `${command[0]} failed in the dev image:\n${cutToLastLines(result)}`,
      'Remove your own packages.',
    );
}

/** Sets one time for all files, and removes setuid and similar bits, so that no program of a guest gains rights. */
async function settle(root: string): Promise<void> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const paths = ['', ...entries.map((entry) => join(entry.parentPath, entry.name).slice(root.length))];
  // Folders come last, because changing an entry changes its folder's time.
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
