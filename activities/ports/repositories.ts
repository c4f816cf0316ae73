/** Git on the host: reads repositories for workspaces, and checks the changes that guests made. */
import type { DataRef } from '../../domain/plan/plan.ts';

/** The repository to read, and the host folders that the read may touch. */
export type RepositoryToPack =
  | {
      readonly kind: 'folder';
      /** The resolved path, without links. */
      readonly folder: string;
      /** The ref to pack; null for the current checkout. */
      readonly ref: string | null;
      readonly includeDirty: boolean;
      readonly mayRead: (folder: string) => boolean;
    }
  | { readonly kind: 'url'; readonly url: string; readonly ref: string | null };

export interface PackedRepository {
  /** A bundle with the repository's commit and the commit that stages start from. */
  readonly bundle: DataRef;
  readonly commit: string;
  readonly base: string;
}

/** Data that lets the guest's git work on a bundle of `pack` without reading the whole bundle first. */
export interface IndexedBase {
  /** The commit that stages start from. */
  readonly base: string;
  /** The length of the bundle's header; the pack follows the header. */
  readonly headerBytes: number;
  /** The index of the pack. */
  readonly index: DataRef;
  /** The index that `checkOut` uses; null if the guest's git checks out. */
  readonly checkout: DataRef | null;
}

export interface CheckoutOfBase {
  readonly base: DataRef;
  readonly indexed: IndexedBase & { readonly checkout: DataRef };
  /** Files of its `.git` in addition to objects and the index; null: the guest has no git and gets no `.git`. */
  readonly gitFiles: Readonly<Record<string, string>> | null;
  readonly nowMs: number;
}

export interface ChangesOfGuest {
  /** The bundle that `pack` made. */
  readonly base: DataRef;
  /** The bundle of the earlier stage that passed the workspace on; null if no earlier stage did. */
  readonly earlier: DataRef | null;
  /** The commit that the guest reports. It is not trusted. */
  readonly commit: string;
  readonly pack: AsyncIterable<Uint8Array>;
}

export interface FilesOfGuest {
  /** The bundle that `pack` made. */
  readonly base: DataRef;
  /** All files of the workspace, from a guest without git. They are not trusted. */
  readonly tar: AsyncIterable<Uint8Array>;
  /** The message of the commit. */
  readonly message: string;
}

export interface TakenChanges {
  readonly patch: DataRef;
  readonly bundle: DataRef;
  /** The number of files that differ from the base, including changes of earlier stages. */
  readonly files: number;
  /** True if this stage itself made a change. */
  readonly isNew: boolean;
}

/** The reason why no result exists; the author can fix it. */
export interface Refusal {
  readonly problem: string;
}

export interface Repositories {
  /**
   * @throws CodedError `host/not-ready` without git, and errors for which `PumpDisk.isFull` decides whether room is
   * missing
   */
  pack(repository: RepositoryToPack, signal: AbortSignal): Promise<PackedRepository | Refusal>;
  /** @throws as `pack` does */
  index(bundle: DataRef, signal: AbortSignal): Promise<IndexedBase | Refusal>;
  /**
   * Returns a tar of the files that the guest's git would have checked out. It can be read once; its files on the host
   * are deleted when the reader ends.
   * @throws as `pack` does
   */
  checkOut(checkout: CheckoutOfBase, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /**
   * Checks the changes of a guest without reading the guest's configuration, hooks or attributes. The problem may quote
   * names that the guest chose.
   * @throws as `pack` does
   */
  takeChanges(changes: ChangesOfGuest, signal: AbortSignal): Promise<TakenChanges | Refusal>;
  /**
   * Compares the files of a guest without git with the base. Files that their `.gitignore` ignores are left out.
   * @throws as `pack` does
   */
  takeFiles(files: FilesOfGuest, signal: AbortSignal): Promise<TakenChanges | Refusal>;
}
