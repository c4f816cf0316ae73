/** Launches a VM in its run directory: collects its parts, waits for memory, and returns its facts once it answers. */
import { basename, dirname, join } from 'node:path';
import { type AgentLayer, agentLayerFolder } from '../../activities/ports/agent-layers.ts';
import type { LaunchSpec, SandboxFacts } from '../../activities/ports/sandbox.ts';
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import { CHECKPOINT_DISK, type CheckpointMemory, listLinkFiles } from '../../domain/run/checkpoint.ts';
import {
  isAlive,
  MicroVm,
  readRunDir,
  readHostFacts,
  type HostFacts,
  type CpuTemplate,
  type LaunchConfig,
  type SnapshotFolder,
  type VmStatus,
} from '../../native/index.ts';
import { type FittingVm, readCheckpoint, requireFit } from '../checkpoints/folder.ts';
import { createFullSaver, type FullSaver, type SavedChain } from './full-checkpoint.ts';
import type { Vmm, VmmLaunch } from './vmm.ts';

/** The time beyond both boots, for making the disk and ending the first VM. */
const READY_GRACE_MS = 10_000;
/** The keeper tries a snapshot for half of the limit, and then boots at most twice. */
const BOOT_TRIES = 2.5;

/** The pause after which a launch that found no room tries again. */
const ASK_AGAIN_MS = 2_000;

/** All paths are absolute. */
export interface MicroVmPieces {
  readonly keeper: string;
  readonly initramfs: string;
  readonly vmm: Vmm;
}

/**
 * Finds the absolute path of a part that only some VMs need: the folder of an agent's command line, the root disk of an
 * image, the program `voidbox-vmm`.
 * @throws CodedError `host/not-ready` that names the missing part and the command that provides it
 */
export type FindVmExtra = (name: AgentLayer | 'dev' | 'vmm') => Promise<string>;

/** The root disk of a VM, and default variables of its commands. */
export interface RootDisk {
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Finds a disk that was made on this host, by the hash in a plan.
 * @throws CodedError `host/not-ready` if there is no such disk
 */
export type FindRootDisk = (sha256: string) => Promise<RootDisk>;

export interface MicroVmOptions {
  /** Folder of the run directories. */
  readonly vmsDir: string;
  /** The `voidbox-vm` binary. It is enough to end a VM, even if the pieces that start one are missing. */
  readonly keeper: string;
  /** @throws CodedError `host/not-ready` that names the missing piece and the command that provides it */
  readonly pieces: () => Promise<MicroVmPieces>;
  readonly extra: FindVmExtra;
  /** Absent: no VM can have an image that a user named. */
  readonly disk?: FindRootDisk;
  /** The memory that all VMs of the folder may use together; absent: launches are not counted. */
  readonly budgetMib?: () => number;
  /** The memory that the host could give to one VM if no other VM ran. */
  readonly hostMemoryMib: () => number;
  readonly bootTimeoutMs?: number;
  /** The time that a guest may stay silent while it owes an answer; by default the keeper's limit. */
  readonly guestSilenceMs?: number;
  /** The time that a VM waits while the disk is full; by default the keeper's limit. */
  readonly diskFullLimitMs?: number;
  /** The time for which a VM lives after its lease was last renewed. */
  readonly orphanTimeoutMs?: number;
  /** Absent: each VM boots. */
  readonly snapshots?: SnapshotFolder;
  /** The features of the CPU of VMs of `voidbox-vmm`; absent: all that the host has. */
  readonly cpuTemplate?: CpuTemplate;
  /** Whether users may run commands in a VM while its stages run; absent: they may not. */
  readonly allowsExec?: boolean;
}

/** One VM to launch. */
export interface VmToLaunch {
  /** The text of its key. */
  readonly name: string;
  readonly dir: string;
  /** `scope x`, for messages. */
  readonly what: string;
  readonly spec: LaunchSpec;
  readonly extra?: Pick<LaunchConfig, 'discard' | 'note' | 'orphanTimeoutMs' | 'waits'>;
}

export interface LaunchedVm {
  readonly vm: MicroVm;
  /** Variables of its image. */
  readonly env: RootDisk['env'];
  /** The identity of its root image; null: it has only the image that every VM boots. */
  readonly root: string | null;
  /** Null: the VM cannot be saved with its memory. */
  readonly saver: FullSaver | null;
  /** Waits for the guest. @throws CodedError `vm/boot-timeout`, `vm/lost`, `host/isolation` */
  readonly ready: (signal: AbortSignal) => Promise<SandboxFacts>;
}

export type LaunchVm = (wanted: VmToLaunch, signal: AbortSignal) => Promise<LaunchedVm>;

/**
 * @returns the function that finds or creates a VM; it throws CodedError `vm/no-capacity`, `vm/too-large`,
 * `host/not-ready`
 */
export function createLauncher(options: MicroVmOptions): LaunchVm {
  let hostFacts: Promise<HostFacts> | null = null;
  const readHost = (keeper: string): Promise<HostFacts> => {
    hostFacts ??= readHostFacts(keeper).catch((error: unknown) => {
      hostFacts = null;
      throw error;
    });
    return hostFacts;
  };

  return async (wanted, signal) => {
    const pieces = await options.pieces();
    const vmm = await pieces.vmm.launchOn(await readHost(pieces.keeper), wanted.spec);
    refuseTooLarge(wanted, vmm, options.hostMemoryMib());
    const { image } = wanted.spec;
    const [layers, root] = await Promise.all([layerMounts(wanted, options.extra), identifyRoot(image, options.extra)]);
    const size = {
      memoryMib: wanted.spec.memoryMib,
      vcpus: wanted.spec.vcpus,
      hasMounts: layers.length > 0 || wanted.spec.mounts.some(({ mode }) => mode === 'ro'),
    };
    if (wanted.spec.savesMemory === true) requireFullSaves(wanted.what, vmm);
    const from = await findFrom(wanted, { root, memory: { ...size, vmm: vmm.settings.name } }, pieces.keeper);
    const rootDisk = image === undefined ? null : await findRootDisk(image, options);
    const bootTimeoutMs = options.bootTimeoutMs ?? vmm.bootTimeoutMs;
    const { orphanTimeoutMs, guestSilenceMs, diskFullLimitMs, budgetMib, snapshots } = options;
    const config = {
      ...launchConfig(
        wanted,
        { pieces, vmm, layers, rootDisk: rootDisk?.path ?? null },
        {
          bootTimeoutMs,
          diskFullLimitMs,
        },
      ),
      ...(orphanTimeoutMs === undefined ? {} : { orphanTimeoutMs }),
      ...(guestSilenceMs === undefined ? {} : { guestSilenceMs }),
      ...(from === null ? {} : { from: from.files }),
      ...(wanted.spec.savesMemory === true ? { fullSaves: true } : {}),
      ...(snapshots === undefined || wanted.spec.start === 'cold' ? {} : { snapshots }),
      ...(budgetMib === undefined ? {} : { budget: { memoryMib: budgetMib(), overheadMib: vmm.overheadMib } }),
      ...wanted.extra,
    };
    const vm = await MicroVm.launch({ keeper: pieces.keeper, dir: wanted.dir, config }, signal).catch(
      (error: unknown) => {
        throw isCodedError(error) && error.code === 'vm/no-capacity' ? createNoRoomError(wanted, error) : error;
      },
    );
    return {
      vm,
      env: rootDisk?.env ?? {},
      root,
      saver: wanted.spec.savesMemory === true ? createFullSaver(vm, size, from?.chain ?? null) : null,
      ready: async (untilReady) => factsOf(vm, await vm.ready(BOOT_TRIES * bootTimeoutMs + READY_GRACE_MS, untilReady)),
    };
  };
}

/**
 * Node 22 and later use the guest's proxy for `fetch` and `http` only with this variable; earlier versions ignore it.
 */
const DEV_ENV = { NODE_USE_ENV_PROXY: '1' } as const;

async function findRootDisk(
  image: NonNullable<LaunchSpec['image']>,
  { extra, disk }: Pick<MicroVmOptions, 'extra' | 'disk'>,
): Promise<RootDisk> {
  if (image.kind === 'dev') return { path: await extra('dev'), env: DEV_ENV };
  if (disk !== undefined) return await disk(image.sha256);
  throw new CodedError('host/not-ready', `this process launches no VM with an image of files (${image.sha256})`);
}

/** The name of the disk's folder contains a hash of the packages. */
export function nameDevRoot(diskPath: string): string {
  return basename(dirname(diskPath));
}

async function identifyRoot(image: LaunchSpec['image'], extra: FindVmExtra): Promise<string | null> {
  if (image === undefined) return null;
  return image.kind === 'disk' ? image.sha256 : nameDevRoot(await extra('dev'));
}

/** @throws CodedError `host/not-ready` */
function requireFullSaves(what: string, { settings }: VmmLaunch): void {
  if (settings.name === 'vmm') return;
  throw new CodedError(
    'host/not-ready',
    `${what} is to be saved with its memory, which needs the VMM voidbox-vmm, and it runs on ${settings.name}: use a host with hardware KVM, and leave out mode: ${settings.name}`,
  );
}

/** The checkpoint with which a VM starts. */
interface Beginning {
  readonly files: NonNullable<LaunchConfig['from']>;
  /** Null: it has a disk only. */
  readonly chain: SavedChain | null;
}

/**
 * The checkpoint with which the VM starts.
 * @throws CodedError `vm/checkpoint-unfit`, except for a VM that runs: a launch only attaches to it
 */
async function findFrom(
  { spec, dir, what }: VmToLaunch,
  vm: Pick<FittingVm, 'root' | 'memory'>,
  keeper: string,
): Promise<Beginning | null> {
  if (spec.from === undefined) return null;
  let memory: CheckpointMemory | undefined;
  try {
    const record = readCheckpoint(spec.from);
    requireFit(what, record, { ...vm, diskMib: spec.diskMib, isMock: false });
    memory = record.memory;
  } catch (error) {
    if (!isAlive(await readRunDir(keeper, dir))) throw error;
  }
  const folder = spec.from;
  const disk = join(folder, CHECKPOINT_DISK);
  if (memory === undefined) return { files: { disk }, chain: null };
  const files = listLinkFiles(memory);
  const chain = memory.links.map((id, at) => {
    const names = files[at]!;
    return { id, state: join(folder, names.state), memory: join(folder, names.memory) };
  });
  return { files: { disk, chain }, chain: { dir: folder, links: memory.links } };
}

/** Other VMs use the memory: the keeper counts all of them. */
function createNoRoomError({ what }: VmToLaunch, error: CodedError): CodedError {
  const message = error.message.replace(/^[^:]*: the VM needs/, `${what} waits for memory: its VM needs`);
  return new CodedError('vm/no-capacity', message, { cause: error, nextRetryDelayMs: ASK_AGAIN_MS });
}

function refuseTooLarge({ what, spec }: VmToLaunch, { overheadMib }: VmmLaunch, totalMib: number): void {
  const needMib = spec.memoryMib + overheadMib;
  if (needMib <= totalMib) return;
  throw new CodedError(
    'vm/too-large',
    `${what} needs ${needMib} MiB (${spec.memoryMib} MiB of guest memory and ${overheadMib} MiB for the VM itself), the host has ${totalMib} MiB: lower memory_mb`,
  );
}

type Mounts = LaunchConfig['mounts'];

/** The parts from which the VM is made. */
interface Parts {
  readonly pieces: MicroVmPieces;
  readonly vmm: VmmLaunch;
  readonly layers: Mounts;
  /** Null: the initramfs is the root. */
  readonly rootDisk: string | null;
}

/** @throws CodedError `admit/mount-refused` if a mount of the plan would cover a layer, or be below one */
async function layerMounts({ what, spec }: VmToLaunch, extra: FindVmExtra): Promise<Mounts> {
  const { layers = [], mounts } = spec;
  return await Promise.all(
    layers.map(async (layer) => {
      const guestPath = agentLayerFolder(layer);
      const over = mounts.find((mount) => isWithin(guestPath, mount.guestPath) || isWithin(mount.guestPath, guestPath));
      if (over !== undefined)
        throw new CodedError(
          'admit/mount-refused',
          `${what} has the ${layer} command line at ${guestPath}, and its mount at ${over.guestPath} overlaps it: mount it elsewhere`,
        );
      return { hostPath: await extra(layer), guestPath };
    }),
  );
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

function launchConfig(
  { name: vmKey, spec }: VmToLaunch,
  { pieces, vmm, layers, rootDisk }: Parts,
  { bootTimeoutMs, diskFullLimitMs }: { readonly bootTimeoutMs: number; readonly diskFullLimitMs: number | undefined },
): LaunchConfig {
  return {
    vmKey,
    memoryMib: spec.memoryMib,
    vcpus: spec.vcpus,
    diskMib: spec.diskMib,
    kernel: vmm.kernel,
    initramfs: pieces.initramfs,
    ...(rootDisk === null ? {} : { rootDisk }),
    vmm: vmm.settings,
    mounts: [
      ...layers,
      ...spec.mounts.filter((mount) => mount.mode === 'ro').map(({ hostPath, guestPath }) => ({ hostPath, guestPath })),
    ],
    ...(spec.egress === undefined ? {} : { egress: spec.egress }),
    bootTimeoutMs,
    ...(diskFullLimitMs === undefined ? {} : { diskFullTimeoutMs: diskFullLimitMs }),
  };
}

/** @throws CodedError `host/isolation` for a VM without a jail */
export function factsOf(vm: MicroVm, status: VmStatus): SandboxFacts {
  if (status.jail === '' || status.jail === 'none') {
    throw new CodedError(
      'host/isolation',
      `VM ${vm.vmKey} runs without a jail: voidbox doctor says how to get bubblewrap`,
    );
  }
  return {
    isolation: 'microvm',
    vmm: status.vmm,
    accelerator: status.accelerator,
    kernel: status.kernel,
    jail: status.jail,
    ...(status.limits === null ? {} : { limits: status.limits }),
    bootMs: status.bootMs,
    start: status.start.kind,
    snapshot: status.start.key,
    ...(status.start.pooled ? { pooled: true } : {}),
    startNote: status.start.note,
    attached: vm.attached,
    vmLife: String(status.startedAtMs),
    hadCommands: status.execs.length > 0,
    fence: vm.fence,
  };
}
