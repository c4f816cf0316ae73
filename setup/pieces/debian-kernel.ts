/** Unpacks Debian's prebuilt kernel, and the modules that a guest needs, from its package without installing it. */
import { existsSync, readFileSync } from 'node:fs';
import { copyFile, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { hasApt, searchPackages, unpackPackage } from './apt.ts';
import { ensureCacheFolder, hashInputs, listCacheFolders } from '../cache/cache.ts';
import { findContentsDamage } from '../cache/contents.ts';
import { formatModuleLine, type KernelModule, parseModuleLine } from '../../guest/image/initramfs.ts';
import { compareVersions } from './find-program.ts';
import { collectModules, type LoadableModule, type WantedModule } from './kernel-modules.ts';
import type { FoundPiece, SetupContext } from './piece.ts';
import { SetupError } from '../setup-error.ts';
import { writeUncompressed } from './uncompressed-kernel.ts';

const PIECE = 'kernel-debian';
/** Part of the cache key. It must grow whenever the same package produces another folder. */
const RECIPE = '5';

/** Kinds of virtio devices, by their numbers in the specification. */
const BALLOON_DEVICE = 5;
const NINEP_DEVICE = 9;
const VSOCK_DEVICE = 19;
const PMEM_DEVICE = 27;

/**
 * The order of loading, unless modules' own dependencies require another: drivers of buses come before modules that need
 * a device. Modules that a kernel has built in are skipped.
 */
const WANTED_MODULES: readonly WantedModule[] = [
  ...toWanted(
    null,
    'virtio_mmio',
    'virtio_pci',
    'virtio_blk',
    'virtio_console',
    'virtio_rng',
    'crc32c_generic',
    'ext4',
  ),
  ...toWanted(NINEP_DEVICE, 'netfs', '9pnet', '9pnet_virtio', '9p'),
  // It depends on all other modules of vsock.
  ...toWanted(VSOCK_DEVICE, 'vmw_vsock_virtio_transport'),
  ...toWanted(BALLOON_DEVICE, 'virtio_balloon'),
  ...toWanted(PMEM_DEVICE, 'virtio_pmem', 'nd_pmem'),
  ...toWanted(null, 'overlay'),
];

/**
 * The further modules of a host of VMs: KVM on the CPU that `test/kvm-lab/` emulates. They are in a folder of their own,
 * which no guest gets.
 */
const LAB_MODULES = toWanted(null, 'kvm_amd');
const LAB_FOLDER = 'lab';

function toWanted(device: number | null, ...names: readonly string[]): WantedModule[] {
  return names.map((name) => ({ name, device }));
}

/** Generic kernels, not the cloud flavour, which has no 9p. Signed images come first; 6.12 precedes 6.1. */
const SERIES = [
  /^linux-image-(6\.12\.\d+\+deb\d+)-amd64$/,
  /^linux-image-(6\.12\.\d+\+deb\d+)-amd64-unsigned$/,
  /^linux-image-(6\.1\.\d+-\d+)-amd64$/,
];

interface KernelRecord {
  readonly recipe: string;
  readonly package: string;
  readonly version: string;
}

/** Returns the newest Debian kernel in the cache. */
export async function findDebianKernel(context: SetupContext): Promise<FoundPiece | null> {
  const found: FoundPiece[] = [];
  for (const folder of await listCacheFolders(context.env.cacheDir, PIECE)) {
    if (findContentsDamage(folder) !== null) continue;
    const record = JSON.parse(readFileSync(join(folder, 'kernel.json'), 'utf8')) as KernelRecord;
    if (record.recipe === RECIPE && existsSync(join(folder, 'vmlinuz')))
      found.push({ path: join(folder, 'vmlinuz'), version: record.version, from: 'cache' });
  }
  return found.sort((a, b) => compareVersions(b.version, a.version))[0] ?? null;
}

export function findDebianKernelBlocker(context: SetupContext): SetupError | null {
  if (hasApt(context)) return null;
  return new SetupError(
    `${context.system.name} has no apt, so Debian's guest kernel cannot be fetched.`,
    'Unpack a Linux 6.12 source tree and build the guest kernel from it: npm run kernel -- /path/to/linux-6.12',
  );
}

export async function getDebianKernel(context: SetupContext): Promise<FoundPiece> {
  const blocker = findDebianKernelBlocker(context);
  if (blocker !== null) throw blocker;
  const chosen = await choosePackage(context);
  const hash = hashInputs([RECIPE, chosen.package, ...WANTED_MODULES.map(formatModuleLine)]);
  const busybox = await context.need('busybox');
  const make = async (into: string): Promise<void> => {
    context.progress(`downloading the guest kernel ${chosen.package} (about 100 MB)`);
    const tree = join(into, 'tree');
    await unpackPackage(context, chosen.package, tree);
    context.progress('taking the kernel and its modules out of the package');
    await installKernel(context, tree, into, busybox.path);
    await rm(tree, { recursive: true, force: true });
    const record: KernelRecord = { recipe: RECIPE, package: chosen.package, version: chosen.version };
    await writeFile(join(into, 'kernel.json'), `${JSON.stringify(record)}\n`);
  };
  const folder = await ensureCacheFolder({ cacheDir: context.env.cacheDir, piece: PIECE, hash }, make, () =>
    context.progress('waiting for another set-up to get the guest kernel'),
  );
  return { path: join(folder, 'vmlinuz'), version: chosen.version, from: 'cache' };
}

async function choosePackage(context: SetupContext): Promise<{ package: string; version: string }> {
  const names = await searchPackages(context, '^linux-image-6\\.1.*-amd64');
  for (const series of SERIES) {
    const fit = names.flatMap((name) => {
      const version = series.exec(name)?.[1];
      return version === undefined ? [] : [{ package: name, version }];
    });
    const newest = fit.sort((a, b) => compareVersions(b.version, a.version))[0];
    if (newest !== undefined) return newest;
  }
  throw new SetupError(
    'The package index offers no generic Debian kernel of the series 6.12 or 6.1.',
    'Use the package sources of Debian 12 or newer, or build the guest kernel from a source tree: npm run kernel -- /path/to/linux-6.12',
  );
}

async function installKernel(context: SetupContext, tree: string, into: string, busybox: string): Promise<void> {
  const image = (await readdir(join(tree, 'boot'))).find((name) => name.startsWith('vmlinuz-'));
  const modulesRoot = [join(tree, 'lib', 'modules'), join(tree, 'usr', 'lib', 'modules')].find((folder) =>
    existsSync(folder),
  );
  if (image === undefined || modulesRoot === undefined)
    throw new SetupError('The kernel package holds no kernel image or no modules.', null);
  await copyFile(join(tree, 'boot', image), join(into, 'vmlinuz'));
  await writeUncompressed(join(into, 'vmlinuz'));
  const ofGuests = await collectModules(context.env, modulesRoot, WANTED_MODULES, busybox);
  await writeModules(into, ofGuests);
  const names = new Set(ofGuests.map(({ name }) => name));
  const all = await collectModules(context.env, modulesRoot, [...WANTED_MODULES, ...LAB_MODULES], busybox);
  await mkdir(join(into, LAB_FOLDER));
  await writeModules(
    join(into, LAB_FOLDER),
    all.filter(({ name }) => !names.has(name)),
  );
}

async function writeModules(folder: string, modules: readonly LoadableModule[]): Promise<void> {
  await mkdir(join(folder, 'modules'));
  for (const module of modules) await writeFile(join(folder, 'modules', module.name), module.content);
  await writeFile(join(folder, 'modules.order'), modules.map((module) => `${formatModuleLine(module)}\n`).join(''));
}

/**
 * Returns the modules with which this kernel is a host of VMs on an emulated CPU, in their order of loading; none for other
 * kernels.
 */
export function readLabModules(kernelFolder: string): KernelModule[] {
  const ofLab = readKernelModules(join(kernelFolder, LAB_FOLDER));
  return ofLab.length === 0 ? [] : [...readKernelModules(kernelFolder), ...ofLab];
}

/** Returns the modules in the folder of a cached kernel, in their order of loading; none for other kernels. */
export function readKernelModules(kernelFolder: string): KernelModule[] {
  const order = join(kernelFolder, 'modules.order');
  if (!existsSync(order)) return [];
  const lines = readFileSync(order, 'utf8')
    .split('\n')
    .filter((line) => line !== '');
  return lines.map((line) => {
    const { name, device } = parseModuleLine(line);
    return { name: basename(name), device, content: readFileSync(join(kernelFolder, 'modules', name)) };
  });
}
