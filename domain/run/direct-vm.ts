/** VMs that a process uses without a run: their identity, and the record in their run directory. */

/** No key of a run's VM has exactly one slash, so it is never taken for the key of such a VM. */
const PREFIX = 'direct/';
const ID = /^sb-[0-9a-f]{20}$/;

export interface DirectVm {
  readonly id: string;
  /** A name for people. */
  readonly name: string | null;
  /** How long it lives while no process is connected to it; null: it ends with its process. */
  readonly keepTtlMs: number | null;
  /** The process that launched it. It may have ended, or handed the VM over. */
  readonly launchedByPid: number;
  readonly launchedAtMs: number;
  /** Whether it started with a disk that may contain secrets. */
  readonly hasSecrets: boolean;
}

export function isDirectVmId(text: string): boolean {
  return ID.test(text);
}

/** The key's text. */
export function createDirectVmKey(id: string): string {
  return `${PREFIX}${id}`;
}

/** Reads such a VM from an `intent.json`; null if the file is about another VM, or about no VM. */
export function directVmOf(intent: Readonly<Record<string, unknown>> | null): DirectVm | null {
  const { vmKey, note } = intent ?? {};
  if (typeof vmKey !== 'string' || !vmKey.startsWith(PREFIX)) return null;
  const id = vmKey.slice(PREFIX.length);
  if (!isDirectVmId(id) || typeof note !== 'object' || note === null) return null;
  const { name, keepTtlMs, launchedByPid, launchedAtMs, hasSecrets } = note as Partial<Record<keyof DirectVm, unknown>>;
  return {
    id,
    name: typeof name === 'string' ? name : null,
    keepTtlMs: typeof keepTtlMs === 'number' ? keepTtlMs : null,
    launchedByPid: typeof launchedByPid === 'number' ? launchedByPid : 0,
    launchedAtMs: typeof launchedAtMs === 'number' ? launchedAtMs : 0,
    hasSecrets: hasSecrets === true,
  };
}
