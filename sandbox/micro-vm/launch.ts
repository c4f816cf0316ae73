/** Launches a VM in its run directory: what it is made with, room for it, and what it says once it answers. */
import { type AgentLayer, agentLayerFolder } from '../../activities/ports/agent-layers.ts';
import type { LaunchSpec, SandboxFacts } from '../../activities/ports/sandbox.ts';
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import { MicroVm, readHostFacts, type HostFacts, type LaunchConfig, type VmStatus } from '../../native/index.ts';
import type { Vmm, VmmLaunch } from './vmm.ts';

/** Beyond both boots: making the disk, ending the first VM. */
const READY_GRACE_MS = 10_000;

/** How long a launch that found no room waits before it asks again. */
const ASK_AGAIN_MS = 2_000;

/** All paths are absolute. */
export interface MicroVmPieces {
  readonly keeper: string;
  readonly initramfs: string;
  readonly vmm: Vmm;
}

/**
 * The absolute path of what only some VMs are made with: the folder of an agent's command line, the root disk of an image.
 * @throws CodedError `host/not-ready` that names what is missing and the line that brings it
 */
export type FindVmExtra = (name: AgentLayer | 'dev') => Promise<string>;

/** The root disk of a VM, and the variables that its commands have where they have no others of these names. */
export interface RootDisk {
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
}

/** A disk that was made on this host, by the hash in a plan. @throws CodedError `host/not-ready` where there is none */
export type FindRootDisk = (sha256: string) => Promise<RootDisk>;

export interface MicroVmOptions {
  /** Folder of the run directories. */
  readonly vmsDir: string;
  /** The `voidbox-vm` binary: enough to end a VM, also where pieces that start one are gone. */
  readonly keeper: string;
  /** @throws CodedError `host/not-ready` that names what is missing and the line that brings it */
  readonly pieces: () => Promise<MicroVmPieces>;
  readonly extra: FindVmExtra;
  /** Absent: no VM has an image that a user named. */
  readonly disk?: FindRootDisk;
  /** What all VMs of the folder may take together; absent: a launch is not counted. */
  readonly budgetMib?: () => number;
  /** What the host could give to one VM that has it alone. */
  readonly hostMemoryMib: () => number;
  readonly bootTimeoutMs?: number;
  /** How long a guest may owe something without progress; the keeper's default otherwise. */
  readonly guestSilenceMs?: number;
  /** How long a VM waits while the disk is full; the keeper's own limit otherwise. */
  readonly diskFullLimitMs?: number;
  /** How long a VM lives whose lease nobody renews. */
  readonly orphanTimeoutMs?: number;
  /** Commands of people may enter a VM while its stages run; absent: they may not. */
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
  readonly extra?: Pick<LaunchConfig, 'discard' | 'note' | 'orphanTimeoutMs'>;
}

export interface LaunchedVm {
  readonly vm: MicroVm;
  /** Variables of its image. */
  readonly env: RootDisk['env'];
  /** Waits for the guest. @throws CodedError `vm/boot-timeout`, `vm/lost`, `host/isolation` */
  readonly ready: (signal: AbortSignal) => Promise<SandboxFacts>;
}

export type LaunchVm = (wanted: VmToLaunch, signal: AbortSignal) => Promise<LaunchedVm>;

/** @returns the function that finds or creates a VM; it throws CodedError `vm/no-capacity`, `vm/too-large`, `host/not-ready` */
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
    const vmm = pieces.vmm.launchOn(await readHost(pieces.keeper));
    refuseTooLarge(wanted, vmm, options.hostMemoryMib());
    const { image } = wanted.spec;
    const [layers, rootDisk] = await Promise.all([
      layerMounts(wanted, options.extra),
      image === undefined ? null : findRootDisk(image, options),
    ]);
    const bootTimeoutMs = options.bootTimeoutMs ?? vmm.bootTimeoutMs;
    const { orphanTimeoutMs, guestSilenceMs, diskFullLimitMs, budgetMib } = options;
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
      ready: async (untilReady) => factsOf(vm, await vm.ready(2 * bootTimeoutMs + READY_GRACE_MS, untilReady)),
    };
  };
}

/** Node 22 and later take the guest's proxy for `fetch` and `http` only with it; earlier ones ignore it. */
const DEV_ENV = { NODE_USE_ENV_PROXY: '1' } as const;

async function findRootDisk(
  image: NonNullable<LaunchSpec['image']>,
  { extra, disk }: Pick<MicroVmOptions, 'extra' | 'disk'>,
): Promise<RootDisk> {
  if (image.kind === 'dev') return { path: await extra('dev'), env: DEV_ENV };
  if (disk !== undefined) return await disk(image.sha256);
  throw new CodedError('host/not-ready', `this process launches no VM with an image of files (${image.sha256})`);
}

/** VMs of others took it: the keeper counts them all. */
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

/** What the VM is made of. */
interface Parts {
  readonly pieces: MicroVmPieces;
  readonly vmm: VmmLaunch;
  readonly layers: Mounts;
  /** Null: the initramfs is the root. */
  readonly rootDisk: string | null;
}

/** @throws CodedError `admit/mount-refused` where a mount of the plan would lie over one of them, or below */
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
    bootMs: status.bootMs,
    attached: vm.attached,
    vmLife: String(status.startedAtMs),
    hadCommands: status.execs.length > 0,
    fence: vm.fence,
  };
}
