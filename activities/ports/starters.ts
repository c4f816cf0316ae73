import type { EventIds } from '../../domain/run/run-trigger.ts';
import type { HostMarks } from './host-marks.ts';

/**
 * Proves who started each run. The proof never comes from a workflow's arguments, memo or headers, because every client
 * of the Temporal server can write those.
 */
export interface Starters {
  /**
   * Returns `unknown` for a run that it does not know; it never rejects for such a run.
   * @param marks  the marks that prove it; absent: those of the state folder
   */
  starterOf(runId: string, marks?: Pick<HostMarks, 'get'>): Promise<Starter>;
}

export type Starter =
  /** This host does not distinguish starters: a run may use everything that the worker's options allow. */
  | { readonly kind: 'any' }
  /** Nothing proves the starter: the run may use no folder of this host, and no login. */
  | { readonly kind: 'unknown' }
  /**
   * The owner of this host's state folder: a run may use everything that the worker's options allow, and the following.
   */
  | ({ readonly kind: 'owner' } & OwnerPermissions)
  /** A holder of a token of the service: a run may use the following, and nothing that the worker's options allow. */
  | ({ readonly kind: 'token' } & TokenPermissions)
  /** A delivery of a deployment: a run may use the following, and nothing that the worker's options allow. */
  | ({ readonly kind: 'deployment' } & DeploymentPermissions);

export interface OwnerPermissions {
  /** The absolute path of the spec's folder. */
  readonly baseDir: string;
  /** Absolute paths of folders that the owner allowed for this run. */
  readonly allow: readonly string[];
  /** Repositories of the network, as HOST/PATH, that the owner allowed this run to fetch. */
  readonly allowGit: readonly string[];
}

export interface TokenPermissions {
  /** The name of the token. */
  readonly name: string;
  /** The absolute path of the folder with the run's uploads. The run may mount it and folders below it, only `ro`. */
  readonly baseDir: string;
  /** Repositories of the network, as HOST/PATH, that the token's runs may fetch. */
  readonly allowGit: readonly string[];
}

export interface DeploymentPermissions extends EventIds {
  readonly name: string;
  readonly version: number;
  /** The id of the delivery that starts the run. */
  readonly delivery: string;
  /** The absolute path of the folder with the version's files. The run may mount it and folders below it, only `ro`. */
  readonly baseDir: string;
  /** Absolute paths of folders that the owner allowed the deployment to mount, only `ro`. */
  readonly allow: readonly string[];
  /** Repositories of the network, as HOST/PATH, that its runs may fetch. */
  readonly allowGit: readonly string[];
}

/**
 * Whether the spec or its values may come from a stranger. Such a run gets nothing of the host but what its starter
 * names.
 */
export function isConfined({ kind }: Pick<Starter, 'kind'>): boolean {
  return kind === 'token' || kind === 'deployment';
}

/** Describes the runs of a confined starter, for errors. */
export function describeConfined({ kind }: Pick<Starter, 'kind'>): string {
  return kind === 'deployment' ? 'a deployment' : 'a token';
}
