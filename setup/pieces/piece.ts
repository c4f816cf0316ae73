/** The interface of a piece of set-up: how it is found, how it is made or fetched, and the error if neither works. */
import type { CacheFolder } from '../cache/cache.ts';
import type { Environment } from '../environment.ts';
import type { HostSystem } from '../machine/host-system.ts';
import type { SetupError } from '../setup-error.ts';

export type PieceName =
  | 'temporal-cli'
  | 'qemu'
  | 'bwrap'
  | 'mke2fs'
  | 'busybox'
  | 'keeper'
  | 'agent'
  | 'kernel'
  | 'initramfs'
  | OptionalPieceName;
/** Pieces that only some runs need: such a run gets them, and no other run waits for them. */
export type OptionalPieceName = 'binding' | 'claude' | 'codex' | 'dev' | 'postgres' | 'vmm';
export type KernelKind = 'debian' | 'voidbox';

export interface FoundPiece {
  /** An absolute path. */
  readonly path: string;
  readonly version: string;
  /** The source of the piece: a variable's name, `PATH` or `cache`. */
  readonly from: string;
}

export interface SetupContext {
  readonly env: Environment;
  readonly system: HostSystem;
  readonly kernelKind: KernelKind;
  /** The folder with package.json, Cargo.toml and guest/. */
  readonly packageRoot: string;
  readonly progress: (line: string) => void;
  /** Returns a piece that is in the `needs` of the calling piece. */
  readonly need: (name: PieceName) => Promise<FoundPiece>;
}

export interface Piece {
  readonly name: PieceName;
  readonly purpose: string;
  /** The variable that names the piece's path. */
  readonly variable: string | null;
  /** Distribution packages that contain it; set-up installs those of all missing pieces in one command. */
  readonly packages: Readonly<Record<'debian' | 'fedora' | 'arch' | 'suse' | 'alpine', string>> | null;
  /** True if `get` only combines files of the machine: no download, no compiler, about a second. */
  readonly isLocal: boolean;
  /** The pieces that `get` needs. */
  readonly needs: readonly PieceName[];
  /** The most free space in the cache that `get` needs, including files that it removes again. */
  readonly roomMib: number;
  /** The folder in the cache into which `get` puts it, for pieces with a single name there. */
  readonly folder?: (context: SetupContext) => CacheFolder;
  /** The reason why `get` would fail, if it is known without downloading or compiling; null if nothing would stop it. */
  readonly blocker: ((context: SetupContext) => Promise<SetupError | null>) | null;
  /**
   * Returns the piece if it exists and is usable, otherwise null. Throws a SetupError if a variable names an unusable
   * piece.
   */
  readonly find: (context: SetupContext) => Promise<FoundPiece | null>;
  /** Gets or makes it, or fails with a SetupError that names the remedy; null if only a package provides it. */
  readonly get: ((context: SetupContext) => Promise<FoundPiece>) | null;
}
