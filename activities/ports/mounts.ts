/** What activities need of the host folders that VMs write to. */
import type { ErrorCode } from '../../domain/errors/codes.ts';

/** One writable mount of one scope of one run. */
export interface MountKey {
  readonly runId: string;
  readonly scope: string;
  /** As admission resolved it, without links: a folder that is reached through a link is another. */
  readonly hostPath: string;
  readonly guestPath: string;
  /** Whether a copy back writes repositories of git; absent: it leaves them as they are. */
  readonly git?: 'writable' | undefined;
}

export interface CopiedBack {
  /** Why nothing, or not all, went back; null when all that changed did. */
  readonly refusal: { readonly code: ErrorCode; readonly message: string } | null;
  readonly written?: number;
  readonly removed?: number;
  /** The files that stay unchanged on the host, because they belong to a repository of git; absent: there are no such files. */
  readonly kept?: GitNotice | undefined;
}

/** Changes of a guest that a copy back left out. */
export interface GitNotice {
  readonly count: number;
  /** Readable, the first few of them. */
  readonly paths: readonly string[];
}

/** Host folders that VMs write to: captured once for a scope, and written back by comparison. */
export interface WritableMounts {
  /**
   * The folder as it was when the scope's first VM got it, as a tar. The first call reads the host.
   * @throws CodedError `mount/unusable` for a folder that cannot be read or is larger than the VM's disk
   */
  capture(
    key: MountKey,
    limits: { readonly maxBytes: number },
    signal: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array>>;
  /** The VM holds the folder already, from a build that captured nothing: until a copy has gone back, what the VM lacks stays on the host. */
  adopt(key: MountKey, capture: AsyncIterable<Uint8Array>): Promise<void>;
  /**
   * Brings the host to what the guest's tar says: entries that differ from the capture or the last copy. One that
   * changed on the host too refuses the copy. What a copy that died in the middle has done is taken into account.
   * @throws CodedError `stage/bad-output` for what may not come out of a VM, and what the tar's stream throws
   */
  copyBack(key: MountKey, tar: AsyncIterable<Uint8Array>): Promise<CopiedBack>;
  /** The run has ended: what was kept of its mounts is removed. */
  dropRun(runId: string): Promise<void>;
}
