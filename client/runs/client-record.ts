import type { UploadHashes } from '../../domain/plan/name-uploads.ts';
import type { EventIds } from '../../domain/run/run-trigger.ts';
import type { HostSettings } from '../../domain/language/compile/stage/host-settings.ts';

/**
 * The mark `CLIENT_MARK`, which a client on the worker's machine writes for a run. It proves that the client may write
 * there.
 */
export interface ClientMark {
  /** Absolute folder of the spec; with the embedded stack the run may mount from it. */
  readonly baseDir: string;
  /** Folders that the user allowed for this run, absolute, links followed. A deployment's run mounts them only `ro`. Absent: none. */
  readonly allow?: readonly string[];
  /** Repositories of the network that the user let this run fetch, as HOST/PATH. Absent: none. */
  readonly allowGit?: readonly string[];
  /**
   * The token that started the run: the run may mount only `baseDir`, the folder of its uploads, and only `ro`. Or the
   * deployment, whose `baseDir` is the folder of its version. Absent: the owner of the state folder.
   */
  readonly starter?: MarkedStarter;
  /** The uploads of the start, by their folders. Absent: none. */
  readonly uploads?: UploadHashes;
  /** The tokens that started the run, or a run that it continues. Absent: none but `starter`. */
  readonly startedBy?: readonly string[];
  /** The key of the start that wrote the mark (`domain/security/start-proof.ts`). Absent: an earlier build wrote it. */
  readonly startKey?: string;
}

export type MarkedStarter =
  | { readonly kind: 'token'; readonly name: string }
  | ({
      readonly kind: 'deployment';
      readonly name: string;
      readonly version: number;
      /** The id of the delivery that started the run. */
      readonly delivery: string;
      /** The token that deployed the version; null: the owner. */
      readonly deployer: string | null;
    } & EventIds);

/** The name of a record on this machine, for runs of the embedded stack: the source that a run was compiled from. */
export const SOURCE_RECORD = 'source';

export interface SourceRecord {
  /** Full path of the spec or definition; null: standard input. */
  readonly path: string | null;
  /** The text of the spec; null for a definition, and for a text of more than `SOURCE_BYTES`. */
  readonly text: string | null;
  readonly params: Readonly<Record<string, string>>;
  /** The value of `--mode`. */
  readonly mode: 'mock' | null;
  /** Settings from the environment that override those of the spec; absent if the environment sets nothing. */
  readonly settings?: HostSettings;
}

/** The largest spec that a run accepts. No person writes a larger one. */
export const SOURCE_BYTES = 512 * 1024;
