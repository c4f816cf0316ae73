/** What activities need of git on the host: repositories for workspaces, and what guests made of them. */
import type { DataRef } from '../../domain/plan/plan.ts';

/** What is read, with what it may read of the host. */
export type RepositoryToPack =
  | {
      readonly kind: 'folder';
      /** Without links. */
      readonly folder: string;
      /** Null: what is checked out. */
      readonly ref: string | null;
      readonly includeDirty: boolean;
      readonly mayRead: (folder: string) => boolean;
    }
  | { readonly kind: 'url'; readonly url: string; readonly ref: string | null };

export interface PackedRepository {
  /** A bundle: the commit that the repository has, and the one that stages start from. */
  readonly bundle: DataRef;
  readonly commit: string;
  readonly base: string;
}

/** What git of a guest needs to work on a bundle of `pack` without reading all of it first. */
export interface IndexedBase {
  /** The commit that stages start from. */
  readonly base: string;
  /** Of the bundle: behind them is the pack. */
  readonly headerBytes: number;
  /** Of the pack. */
  readonly index: DataRef;
  /** The index that `checkOut` uses; null: git of the guest checks out. */
  readonly checkout: DataRef | null;
}

export interface CheckoutOfBase {
  readonly base: DataRef;
  readonly indexed: IndexedBase & { readonly checkout: DataRef };
  /** Files of its `.git`, beside objects and the index. */
  readonly gitFiles: Readonly<Record<string, string>>;
  readonly nowMs: number;
}

export interface ChangesOfGuest {
  /** As `pack` made it. */
  readonly base: DataRef;
  /** What the earlier stage left that handed the workspace on; null: none did. */
  readonly earlier: DataRef | null;
  /** The guest's own word: nothing of it is believed. */
  readonly commit: string;
  readonly pack: AsyncIterable<Uint8Array>;
}

export interface TakenChanges {
  readonly patch: DataRef;
  readonly bundle: DataRef;
  /** That differ from the base, those of earlier stages included. */
  readonly files: number;
  /** This stage changed something itself. */
  readonly isNew: boolean;
}

/** Why there is none; the author can change it. */
export interface Refusal {
  readonly problem: string;
}

export interface Repositories {
  /** @throws CodedError `host/not-ready` without git, and errors for which `PumpDisk.isFull` says whether room is what lacks */
  pack(repository: RepositoryToPack, signal: AbortSignal): Promise<PackedRepository | Refusal>;
  /** @throws as `pack` does */
  index(bundle: DataRef, signal: AbortSignal): Promise<IndexedBase | Refusal>;
  /** A tar of what git of a guest would have checked out. Read once; what it needs on the host is gone when its reader is. @throws as `pack` does */
  checkOut(checkout: CheckoutOfBase, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Nothing of the guest's configuration, hooks or attributes is read. The problem may quote names that it chose. @throws as `pack` does */
  takeChanges(changes: ChangesOfGuest, signal: AbortSignal): Promise<TakenChanges | Refusal>;
}
