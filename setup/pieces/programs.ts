/** The pieces that are programs of the distribution: QEMU, the jail, the maker of scratch disks, busybox. */
import { existsSync } from 'node:fs';
import { copyFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { hasApt, isRoot, unpackPackage } from './apt.ts';
import { type CacheFolder, ensureCacheFolder, findCacheFolder, hashInputs } from '../cache/cache.ts';
import { openPackageSource } from '../dev-disk/debian-packages.ts';
import { packagesOf } from './distribution-packages.ts';
import { findProgram, type ProgramWanted } from './find-program.ts';
import { installLine } from '../machine/host-system.ts';
import type { FoundPiece, Piece, SetupContext } from './piece.ts';
import { cutToLastLines, runProgram } from './run-program.ts';
import { SetupError } from '../setup-error.ts';
import { isStaticElf } from './static-elf.ts';

/** Debian's package of a static busybox, which is unpacked and not installed. */
const BUSYBOX_PACKAGE = 'busybox-static';
/** The recipe of busybox: from the newest suite of the mirror, because `wget -T` of Debian 12's busybox crashes. */
const BUSYBOX_RECIPE = 'newest suite';
/** Sends a request to the discard port of the loopback; it does not matter whether a server answers. */
const WGET_PROBE = ['wget', '-q', '-T', '1', '-O', '-', 'http://127.0.0.1:9/'] as const;
const WGET_PROBE_LIMIT_MS = 5_000;

/** Defines a program that packages of the distribution install, and that Voidbox does not get itself. */
function definePackagedProgram(
  facts: Pick<Piece, 'name' | 'purpose' | 'variable' | 'packages'>,
  search: Omit<ProgramWanted, 'piece' | 'variable'>,
  probe: (context: SetupContext, path: string) => Promise<void> = () => Promise.resolve(),
): Piece {
  return {
    ...facts,
    isLocal: false,
    needs: [],
    roomMib: 0,
    blocker: null,
    find: async (context) => {
      const found = await findProgram(context, { piece: facts.name, variable: facts.variable, ...search });
      if (found !== null) await probe(context, found.path);
      return found;
    },
    get: null,
  };
}

export const qemu = definePackagedProgram(
  {
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
  },
  {
    names: ['qemu-system-x86_64', 'qemu-kvm'],
    versionArgs: ['--version'],
    versionPattern: /version (\d+\.\d+(?:\.\d+)?)/,
    minimumVersion: '7.0',
  },
);

export const bwrap = definePackagedProgram(
  {
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
  },
  {
    names: ['bwrap'],
    versionArgs: ['--version'],
    versionPattern: /bubblewrap (\d+\.\d+(?:\.\d+)?)/,
    minimumVersion: '0.4',
  },
  tryJail,
);

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
    `bubblewrap is installed but cannot make a jail (${cutToLastLines(result, 1)}).`,
    'Allow user namespaces: sudo sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000 (Ubuntu also: kernel.apparmor_restrict_unprivileged_userns=0)',
  );
}

export const mke2fs = definePackagedProgram(
  {
    name: 'mke2fs',
    purpose: 'makes the scratch disks',
    variable: null,
    packages: { debian: 'e2fsprogs', fedora: 'e2fsprogs', arch: 'e2fsprogs', suse: 'e2fsprogs', alpine: 'e2fsprogs' },
  },
  {
    names: ['mke2fs'],
    versionArgs: ['-V'],
    versionPattern: /mke2fs (\d+\.\d+(?:\.\d+)?)/,
    minimumVersion: '1.43',
  },
);

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
  roomMib: 100,
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
        isStaticElf(path)
          ? findBusyboxFault(context, path)
          : Promise.resolve('it needs shared libraries, but guests have only static programs'),
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
        const index = join(into, 'index');
        const source = await openPackageSource(context, index);
        context.progress(`downloading ${BUSYBOX_PACKAGE} of Debian ${source.suite}`);
        const tree = join(into, 'tree');
        await unpackPackage(context, BUSYBOX_PACKAGE, tree, source.options);
        await rm(index, { recursive: true });
        const binary = ['bin/busybox', 'usr/bin/busybox']
          .map((path) => join(tree, path))
          .find((path) => existsSync(path));
        if (binary === undefined) throw new SetupError(`The package ${BUSYBOX_PACKAGE} holds no busybox.`, null);
        await copyFile(binary, join(into, 'busybox'));
        await rm(tree, { recursive: true });
        const fault = await findBusyboxFault(context, join(into, 'busybox'));
        if (fault !== null) context.progress(`the mirror has no Debian trixie: of the guest's busybox ${fault}`);
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

/** Returns null for a busybox without a known fault. A crash ends with a signal, which leaves no exit code. */
async function findBusyboxFault(context: SetupContext, path: string): Promise<string | null> {
  const { exitCode } = await runProgram(context.env, path, WGET_PROBE, { timeoutMs: WGET_PROBE_LIMIT_MS });
  return exitCode === null ? 'its `wget -T` crashes' : null;
}

function busyboxFolder(context: SetupContext): CacheFolder {
  return { cacheDir: context.env.cacheDir, piece: 'busybox', hash: hashInputs([BUSYBOX_PACKAGE, BUSYBOX_RECIPE]) };
}

async function describeBusybox(context: SetupContext, path: string): Promise<FoundPiece> {
  const version = /BusyBox v(\S+)/.exec((await runProgram(context.env, path, ['--help'])).stdout)?.[1];
  return { path, version: version ?? 'unknown', from: 'cache' };
}
