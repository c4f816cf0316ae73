/** What a piece of set-up is: how it is found, how it is got, what the user is told when neither works. */
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
/** Pieces that only some runs need: such a run gets them, and no other waits for them. */
export type OptionalPieceName = 'claude' | 'codex' | 'dev';
export type KernelKind = 'debian' | 'voidbox';

export interface FoundPiece {
  /** Absolute. */
  readonly path: string;
  readonly version: string;
  /** Where it came from: a variable's name, `PATH` or `cache`. */
  readonly from: string;
}

export interface SetupContext {
  readonly env: Environment;
  readonly system: HostSystem;
  readonly kernelKind: KernelKind;
  /** The folder with package.json, Cargo.toml and guest/. */
  readonly packageRoot: string;
  readonly progress: (line: string) => void;
  /** A piece that is in the `needs` of the one that asks. */
  readonly need: (name: PieceName) => Promise<FoundPiece>;
}

export interface Piece {
  readonly name: PieceName;
  readonly purpose: string;
  /** The variable that names it outright. */
  readonly variable: string | null;
  /** Distribution packages that hold it; set-up installs those of all missing pieces in one go. */
  readonly packages: Readonly<Record<'debian' | 'fedora' | 'arch' | 'suse' | 'alpine', string>> | null;
  /** True when `get` only puts together what is on the machine: no download, no compiler, a second or so. */
  readonly isLocal: boolean;
  /** What `get` asks for. */
  readonly needs: readonly PieceName[];
  /** Free space in the cache that `get` takes at most, what it removes again included. */
  readonly roomMib: number;
  /** Where in the cache `get` puts it, for those that lie there under one name. */
  readonly folder?: (context: SetupContext) => CacheFolder;
  /** Why `get` would fail, as far as that can be told without downloading or compiling; null when nothing is in its way. */
  readonly blocker: ((context: SetupContext) => Promise<SetupError | null>) | null;
  /** The piece if it is here and fit for use, else null. A piece that is named outright and unfit is a SetupError. */
  readonly find: (context: SetupContext) => Promise<FoundPiece | null>;
  /** Gets or makes it, or fails with a SetupError that says what to do; null when only a package gives it. */
  readonly get: ((context: SetupContext) => Promise<FoundPiece>) | null;
}
