/** The options of `Sandbox.launch`, and their checks. */
import { resolve } from 'node:path';
import type { LaunchSpec } from '../activities/ports/sandbox.ts';
import { SANDBOX_DEFAULTS } from '../domain/plan/defaults.ts';
import type { IsolationLevel } from '../domain/plan/plan.ts';
import { type NumberRange, RANGES } from '../domain/language/grammar/values.ts';
import { checkKnown, checkVariables, refuse } from './check.ts';
import { checkEgress, type SandboxEgress, type SandboxServices } from './egress.ts';

export interface SandboxMount {
  /** A folder or file of this machine; relative to the working directory. */
  readonly hostPath: string;
  readonly guestPath: string;
  /** Read-only: use `putTar` and `getTar` for data that commands write. */
  readonly mode?: 'ro';
}

export interface LaunchOptions {
  /** A name for people, in `Sandbox.list()` and `voidbox ps`; it need not be unique. */
  readonly name?: string;
  /** Default: 512. */
  readonly memoryMib?: number;
  /** Default: 1. */
  readonly vcpus?: number;
  /** Default: 2048, or the size of the disk of `from` if that is larger. The disk is sparse. */
  readonly diskMib?: number;
  /** A checkpoint with whose disk the VM starts: its name, or the beginning of its id. Default: an empty disk. */
  readonly from?: string;
  /** `none`: the VM boots, and no snapshot is made of it. Default: it starts from a snapshot if this machine has one. */
  readonly snapshot?: 'none';
  readonly mounts?: readonly SandboxMount[];
  /** Network destinations that the VM can reach. Default: `none`. */
  readonly egress?: SandboxEgress;
  /** `host:port` by the name in the guest, in this machine's network or on its loopback. Default: no services. */
  readonly services?: SandboxServices;
  /**
   * `dev` contains Debian packages: bash, git, node, python3 and more. Default: `base`, which contains only busybox.
   */
  readonly image?: 'base' | 'dev';
  /** Variables for every command. */
  readonly env?: Readonly<Record<string, string>>;
  /** The weakest isolation that is acceptable. Default: `microvm`; for `mode: 'mock'`, `none`. */
  readonly isolation?: IsolationLevel;
  /**
   * `vmm` is the VMM of Voidbox, which needs hardware KVM. `mock` simulates a few programs in memory and
   * isolates nothing. Default: `auto`, which takes `vmm` on hardware KVM and otherwise `qemu`.
   */
  readonly mode?: 'auto' | 'qemu' | 'vmm' | 'mock';
  /** Lets the VM outlive this process: `true` for an hour without a connection, or for `ttlMs`. Default: false. */
  readonly keep?: boolean | { readonly ttlMs: number };
  /** How long to wait for memory that other VMs use. Default: 0. */
  readonly waitMs?: number;
  /** Aborts the launch. It has no effect after the VM is launched. */
  readonly signal?: AbortSignal;
  /** Downloads and builds the pieces that this machine lacks, like `voidbox run`. Default: false. */
  readonly install?: boolean;
  /** Called with each line about set-up. */
  readonly onProgress?: (line: string) => void;
  /**
   * Allows checkpoints with the memory of the VM. It needs `voidbox-vmm`, so hardware KVM. Default: false, and a VM that
   * starts from a checkpoint with memory has it.
   */
  readonly savesMemory?: boolean;
  /** Default: the state folder of the environment, as for `voidbox`. */
  readonly stateDir?: string;
}

export interface LaunchChoice {
  readonly name: string | null;
  readonly spec: LaunchSpec;
  readonly env: Readonly<Record<string, string>>;
  readonly isMock: boolean;
  readonly keepTtlMs: number | null;
  readonly waitMs: number;
  /** The name or the beginning of the id of a checkpoint; null: an empty disk. */
  readonly from: string | null;
  /** Whether the caller set the size of the disk. */
  readonly hasDiskSize: boolean;
  /** Whether the disk may contain secrets when the VM starts. */
  readonly hasSecrets: boolean;
}

const NAME_CHARACTERS = 100;
const MOUNTS = 16;
const DEFAULT_TTL_MS = 3_600_000;
/** Within these limits the keeper's lease can be renewed, and a forgotten VM ends. */
const TTL_MS = { min: 10_000, max: 7 * 86_400_000, integer: true, unit: 'milliseconds' } as const;
const WAIT_MS = { min: 0, max: 86_400_000, integer: true, unit: 'milliseconds' } as const;
const MODES: readonly string[] = ['auto', 'qemu', 'vmm', 'mock'];
const IMAGES: readonly string[] = ['base', 'dev'];
const ISOLATIONS: readonly string[] = ['none', 'process', 'microvm'];

const KNOWN = {
  name: true,
  memoryMib: true,
  vcpus: true,
  diskMib: true,
  from: true,
  snapshot: true,
  mounts: true,
  egress: true,
  services: true,
  image: true,
  env: true,
  isolation: true,
  mode: true,
  keep: true,
  waitMs: true,
  signal: true,
  install: true,
  onProgress: true,
  savesMemory: true,
  stateDir: true,
} as const;

/** @throws TypeError or RangeError that names the option, its value and the allowed values */
export function checkLaunchOptions(options: LaunchOptions): LaunchChoice {
  checkKnown<LaunchOptions>('the options of `launch`', options, KNOWN);
  const { mode = 'auto', keep = false } = options;
  if (!MODES.includes(mode)) throw refuse('mode', mode, `one of ${MODES.join(', ')}`);
  const isMock = mode === 'mock';
  const isolation = options.isolation ?? (isMock ? 'none' : SANDBOX_DEFAULTS.isolation);
  if (!ISOLATIONS.includes(isolation)) throw refuse('isolation', isolation, `one of ${ISOLATIONS.join(', ')}`);
  const { image = 'base', snapshot } = options;
  if (snapshot !== undefined && snapshot !== 'none')
    throw refuse('snapshot', snapshot, 'none: the VM boots. `from` names a checkpoint');
  if (!IMAGES.includes(image)) throw refuse('image', image, `one of ${IMAGES.join(', ')}`);
  const { savesMemory = false } = options;
  if (typeof savesMemory !== 'boolean') throw refuse('savesMemory', savesMemory, 'true or false');
  const egress = checkEgress(options.egress, options.services);
  const count = (name: 'memoryMib' | 'vcpus' | 'diskMib'): number =>
    checkRange(name, options[name] ?? SANDBOX_DEFAULTS[name], RANGES[name]);
  return {
    name: checkName(options.name),
    spec: {
      mode,
      isolation,
      memoryMib: count('memoryMib'),
      vcpus: count('vcpus'),
      diskMib: count('diskMib'),
      mounts: checkMounts(options.mounts ?? []),
      ...(image === 'dev' ? { image: { kind: 'dev' } } : {}),
      ...(egress === undefined ? {} : { egress }),
      ...(snapshot === undefined ? {} : { start: 'cold' }),
      ...(savesMemory ? { savesMemory } : {}),
    },
    env: checkVariables('env', options.env ?? {}),
    isMock,
    keepTtlMs: ttlOf(keep),
    waitMs: checkRange('waitMs', options.waitMs ?? 0, WAIT_MS),
    from: checkFrom(options.from),
    hasDiskSize: options.diskMib !== undefined,
    hasSecrets: false,
  };
}

function checkName(name: string | undefined): string | null {
  if (name === undefined) return null;
  if (typeof name !== 'string' || name === '' || name.length > NAME_CHARACTERS || /\p{Cc}/u.test(name))
    throw refuse('name', name, `1 to ${NAME_CHARACTERS} characters without control characters`);
  return name;
}

function checkFrom(from: string | undefined): string | null {
  if (from === undefined) return null;
  if (typeof from !== 'string' || from === '' || from.length > NAME_CHARACTERS)
    throw refuse('from', from, 'the name of a checkpoint or the beginning of its id');
  return from;
}

function checkMounts(mounts: readonly SandboxMount[]): LaunchSpec['mounts'] {
  if (mounts.length > MOUNTS) throw refuse('mounts', `${mounts.length} mounts`, `at most ${MOUNTS}`);
  return mounts.map(({ hostPath, guestPath, mode = 'ro' }, index) => {
    if (mode !== 'ro')
      throw refuse(`mounts[${index}].mode`, mode, 'ro: use putTar and getTar for folders that commands write');
    if (typeof hostPath !== 'string' || hostPath === '') throw refuse(`mounts[${index}].hostPath`, hostPath, 'a path');
    if (typeof guestPath !== 'string' || !guestPath.startsWith('/'))
      throw refuse(`mounts[${index}].guestPath`, guestPath, 'an absolute path');
    return { hostPath: resolve(hostPath), guestPath, mode };
  });
}

function ttlOf(keep: boolean | { readonly ttlMs: number }): number | null {
  if (keep === false) return null;
  return keep === true ? DEFAULT_TTL_MS : checkRange('keep.ttlMs', keep.ttlMs, TTL_MS);
}

function checkRange(name: string, value: number, { min, max, integer, unit }: NumberRange): number {
  if (typeof value !== 'number' || !(value >= min && value <= max) || (integer && !Number.isInteger(value)))
    throw refuse(name, value, `${min} to ${max} ${unit}`);
  return value;
}
