/** Reads `snapshot.json` of a snapshot, which a keeper wrote (native/keeper/src/snapshots/store/mod.rs). */

/** The parts of the key as the keeper names them. A later build may add parts. */
export type KeyParts = Readonly<Record<string, unknown>>;

export interface SnapshotRecord {
  readonly key: string;
  readonly parts: KeyParts;
  /** The boot of the host on which the snapshot was made. */
  readonly hostBoot: string;
  /** The mount namespace in which the paths of the parts name its files; null: it is not known. */
  readonly mountNamespace: number | null;
  /** The VMM and its accelerator, such as `qemu tcg`; null: the record does not contain it. */
  readonly vmm: string | null;
  readonly memoryMib: number;
  /** Null: the arguments of the VMM do not contain it. */
  readonly vcpus: number | null;
  /** Null: VMs of the key have no root disk. */
  readonly rootDiskBytes: number | null;
  readonly hasMounts: boolean;
  readonly stateBytes: number;
  /** Nanoseconds since the epoch, rounded as JavaScript rounds them. */
  readonly stateMtimeNs: number;
  /** The SHA-256 of the state; null: the record does not contain it. */
  readonly stateSha256: string | null;
  /** The bytes that `memory` has on the disk, a file with holes; 0: the state contains the memory. */
  readonly memoryBytes: number;
  readonly memoryMtimeNs: number;
  readonly createdAtMs: number;
}

/** @returns the record, or what is wrong with the text */
export function parseSnapshotRecord(text: string): SnapshotRecord | { readonly problem: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { problem: 'its snapshot.json is not JSON' };
  }
  const record = toFields(value);
  const parts = toFields(record['parts']);
  const rootDiskBytes = parts['rootDiskBytes'] ?? null;
  const memoryBytes = record['memoryBytes'] ?? 0;
  const memoryMtimeNs = record['memoryMtimeNs'] ?? 0;
  const { key, memoryMib, stateBytes, stateMtimeNs, sha256, createdAtMs } = record;
  const { hostBoot } = parts;
  const mountNamespace = record['mountNamespace'] ?? null;
  const wrong = Object.entries({
    key: typeof key === 'string',
    'parts.hostBoot': typeof hostBoot === 'string',
    'parts.rootDiskBytes': rootDiskBytes === null || isCount(rootDiskBytes),
    mountNamespace: mountNamespace === null || isCount(mountNamespace),
    memoryMib: isCount(memoryMib),
    stateBytes: isCount(stateBytes),
    stateMtimeNs: typeof stateMtimeNs === 'number',
    memoryBytes: isCount(memoryBytes),
    memoryMtimeNs: typeof memoryMtimeNs === 'number',
    createdAtMs: isCount(createdAtMs),
  }).find(([, isRight]) => !isRight);
  if (wrong !== undefined) return { problem: `\`${wrong[0]}\` in its snapshot.json is missing or wrong` };
  const args = Array.isArray(parts['arguments']) ? parts['arguments'].filter((each) => typeof each === 'string') : [];
  const vmm = typeof parts['vmm'] === 'string' ? parts['vmm'] : null;
  return {
    key: key as string,
    parts,
    hostBoot: hostBoot as string,
    mountNamespace: mountNamespace as number | null,
    vmm,
    memoryMib: memoryMib as number,
    rootDiskBytes: rootDiskBytes as number | null,
    ...(vmm?.startsWith(NATIVE_VMM) === true ? readConfiguration(args) : readQemuWords(args)),
    stateBytes: stateBytes as number,
    stateMtimeNs: stateMtimeNs as number,
    stateSha256: typeof sha256 === 'string' ? sha256 : null,
    memoryBytes: memoryBytes as number,
    memoryMtimeNs: memoryMtimeNs as number,
    createdAtMs: createdAtMs as number,
  };
}

/** The beginning of `vmm` in a record of `voidbox-vmm`. */
const NATIVE_VMM = 'vmm ';

type Shape = Pick<SnapshotRecord, 'vcpus' | 'hasMounts'>;

function readQemuWords(args: readonly string[]): Shape {
  const vcpus = Number(args[args.indexOf('-smp') + 1]);
  return {
    vcpus: args.includes('-smp') && isCount(vcpus) ? vcpus : null,
    hasMounts: args.some((each) => each.startsWith('virtio-9p')),
  };
}

/** The only argument is the configuration that `voidbox-vmm` gets, without descriptors. */
function readConfiguration([text = '']: readonly string[]): Shape {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = null;
  }
  const { vcpus, folders } = toFields(value);
  return { vcpus: isCount(vcpus) ? (vcpus as number) : null, hasMounts: folders !== undefined && folders !== null };
}

function toFields(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : {};
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
