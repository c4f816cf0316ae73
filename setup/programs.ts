/** The pieces that are programs of the distribution: QEMU, the jail, the maker of scratch disks, busybox. */
import { existsSync } from 'node:fs';
import { copyFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { hasApt, isRoot, unpackPackage } from './apt.ts';
import { type CacheFolder, ensureCacheFolder, findCacheFolder, hashInputs } from './cache.ts';
import { packagesOf } from './distribution-packages.ts';
import { findProgram } from './find-program.ts';
import { installLine } from './host-system.ts';
import type { FoundPiece, Piece, SetupContext } from './piece.ts';
import { lastLines, runProgram } from './run-program.ts';
import { SetupError } from './setup-error.ts';
import { isStaticElf } from './static-elf.ts';

/** Debian's package of a static busybox, unpacked where it can't be installed. */
const BUSYBOX_PACKAGE = 'busybox-static';

export const qemu: Piece = {
  name: 'qemu',
  purpose: 'runs the micro-VMs',
  variable: 'VOIDBOX_QEMU',
  packages: {
    debian: 'qemu-system-x86',
    fedora: 'qemu-system-x86-core',
    arch: 'qemu-system-x86',
    suse: 'qemu-x86',
    alpine: 'qemu-system-x86_64',
  },
  isLocal: false,
  needs: [],
  roomMib: 0,
  blocker: null,
  find: (context) =>
    findProgram(context, {
      piece: 'qemu',
      variable: 'VOIDBOX_QEMU',
      names: ['qemu-system-x86_64', 'qemu-kvm'],
      versionArgs: ['--version'],
      versionPattern: /version (\d+\.\d+(?:\.\d+)?)/,
      minimumVersion: '7.0',
    }),
  get: null,
};

export const bwrap: Piece = {
  name: 'bwrap',
  purpose: 'jails QEMU (bubblewrap)',
  variable: 'VOIDBOX_BWRAP',
  packages: {
    debian: 'bubblewrap',
    fedora: 'bubblewrap',
    arch: 'bubblewrap',
    suse: 'bubblewrap',
    alpine: 'bubblewrap',
  },
  isLocal: false,
  needs: [],
  roomMib: 0,
  blocker: null,
  find: async (context) => {
    const found = await findProgram(context, {
      piece: 'bwrap',
      variable: 'VOIDBOX_BWRAP',
      names: ['bwrap'],
      versionArgs: ['--version'],
      versionPattern: /bubblewrap (\d+\.\d+(?:\.\d+)?)/,
      minimumVersion: '0.4',
    });
    if (found !== null) await tryJail(context, found.path);
    return found;
  },
  get: null,
};

async function tryJail(context: SetupContext, path: string): Promise<void> {
  const result = await runProgram(context.env, path, [
    '--unshare-user',
    '--unshare-pid',
    '--unshare-net',
    '--unshare-ipc',
    '--ro-bind',
    '/',
    '/',
    '/bin/true',
  ]);
  if (result.exitCode === 0) return;
  throw new SetupError(
    `bubblewrap is installed but cannot make a jail (${lastLines(result, 1)}).`,
    'Allow user namespaces: sudo sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000 (Ubuntu also: kernel.apparmor_restrict_unprivileged_userns=0)',
  );
}

export const mke2fs: Piece = {
  name: 'mke2fs',
  purpose: 'makes the scratch disks',
  variable: null,
  packages: { debian: 'e2fsprogs', fedora: 'e2fsprogs', arch: 'e2fsprogs', suse: 'e2fsprogs', alpine: 'e2fsprogs' },
  isLocal: false,
  needs: [],
  roomMib: 0,
  blocker: null,
  find: (context) =>
    findProgram(context, {
      piece: 'mke2fs',
      variable: null,
      names: ['mke2fs'],
      versionArgs: ['-V'],
      versionPattern: /mke2fs (\d+\.\d+(?:\.\d+)?)/,
      minimumVersion: '1.43',
    }),
  get: null,
};

export const busybox: Piece = {
  name: 'busybox',
  purpose: "the guest's shell and tools",
  variable: null,
  packages: {
    debian: BUSYBOX_PACKAGE,
    fedora: 'busybox',
    arch: 'busybox',
    suse: 'busybox-static',
    alpine: 'busybox-static',
  },
  isLocal: false,
  needs: [],
  roomMib: 20,
  blocker: (context) => Promise.resolve(busyboxBlocker(context)),
  find: async (context) => {
    const onPath = await findProgram(context, {
      piece: 'busybox',
      variable: null,
      names: ['busybox', 'busybox-static', 'busybox.static'],
      versionArgs: ['--help'],
      versionPattern: /BusyBox v(\d+\.\d+(?:\.\d+)?)/,
      minimumVersion: '1.30',
      complaint: (path) =>
        Promise.resolve(isStaticElf(path) ? null : 'it needs shared libraries, and a guest has none'),
    });
    if (onPath !== null) return onPath;
    const folder = findCacheFolder(busyboxFolder(context));
    return folder === null ? null : describeBusybox(context, join(folder, 'busybox'));
  },
  get: async (context) => {
    const blocker = busyboxBlocker(context);
    if (blocker !== null) throw blocker;
    const folder = await ensureCacheFolder(
      busyboxFolder(context),
      async (into) => {
        context.progress(`downloading ${BUSYBOX_PACKAGE}`);
        const tree = join(into, 'tree');
        await unpackPackage(context, BUSYBOX_PACKAGE, tree);
        const binary = ['bin/busybox', 'usr/bin/busybox']
          .map((path) => join(tree, path))
          .find((path) => existsSync(path));
        if (binary === undefined) throw new SetupError(`The package ${BUSYBOX_PACKAGE} holds no busybox.`, null);
        await copyFile(binary, join(into, 'busybox'));
        await rm(tree, { recursive: true });
      },
      () => context.progress(`waiting for another set-up to get ${BUSYBOX_PACKAGE}`),
    );
    return describeBusybox(context, join(folder, 'busybox'));
  },
};

function busyboxBlocker(context: SetupContext): SetupError | null {
  if (hasApt(context)) return null;
  const line = installLine(context.system, packagesOf(context, [busybox]), isRoot());
  return new SetupError(
    'There is no static busybox on PATH.',
    line ?? 'Install a static busybox, so that it is on PATH.',
  );
}

function busyboxFolder(context: SetupContext): CacheFolder {
  return { cacheDir: context.env.cacheDir, piece: 'busybox', hash: hashInputs([BUSYBOX_PACKAGE]) };
}

async function describeBusybox(context: SetupContext, path: string): Promise<FoundPiece> {
  const version = /BusyBox v(\S+)/.exec((await runProgram(context.env, path, ['--help'])).stdout)?.[1];
  return { path, version: version ?? 'unknown', from: 'cache' };
}
