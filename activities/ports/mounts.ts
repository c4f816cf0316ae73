/** The host folders that VMs write to. */
import type { ErrorCode } from '../../domain/errors/codes.ts';

/** One writable mount of one scope of one run. */
export interface MountKey {
  readonly runId: string;
  readonly scope: string;
  /** The path without links that admission resolved. A folder that is reached through a link has another key. */
  readonly hostPath: string;
  readonly guestPath: string;
  /** `writable` if a copy back also writes git repositories; absent: it leaves them unchanged. */
  readonly git?: 'writable' | undefined;
}

export interface CopiedBack {
  /** The reason why nothing, or not everything, was copied back; null if all changes were. */
  readonly refusal: { readonly code: ErrorCode; readonly message: string } | null;
  readonly written?: number;
  readonly removed?: number;
  /**
   * The changed files that stay as they are on the host, because they belong to a git repository; absent: no such
   * files.
   */
  readonly kept?: GitNotice | undefined;
}

/** Changes of a guest that a copy back skipped. */
export interface GitNotice {
  readonly count: number;
  /** The first few paths, in readable form. */
  readonly paths: readonly string[];
}

/**
 * Host folders that VMs write to. A folder is captured once for a scope; a copy back compares the guest's files with
 * the capture.
 */
export interface WritableMounts {
  /**
   * Returns the folder as a tar, in the state that the scope's first VM got. The first call reads the host.
   * @throws CodedError `mount/unusable` for a folder that cannot be read or is larger than the VM's disk
   */
  capture(
    key: MountKey,
    limits: { readonly maxBytes: number },
    signal: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array>>;
  /**
   * Registers a capture for a VM that already contains the folder, from a build that captured nothing. Until the first
   * copy back, files that the VM lacks stay on the host.
   */
  adopt(key: MountKey, capture: AsyncIterable<Uint8Array>): Promise<void>;
  /**
   * Copies the entries of the guest's tar to the host that differ from the capture or from the last copy. An entry that
   * also changed on the host makes the copy fail. The copy accounts for the steps of an earlier copy that was
   * interrupted.
   * @throws CodedError `stage/bad-output` for entries that must not leave a VM, and errors of the tar's stream
   */
  copyBack(key: MountKey, tar: AsyncIterable<Uint8Array>): Promise<CopiedBack>;
  /** Deletes the captures of the run's mounts after the run has ended. */
  dropRun(runId: string): Promise<void>;
}
