/**
 * Who started each run, as a host can prove it. The answer never comes from arguments of a workflow, its memo or its headers:
 * every client of the Temporal server writes those.
 */
export interface Starters {
  /** Never rejects for a run that it does not know: its starter is `unknown`. */
  starterOf(runId: string): Promise<Starter>;
}

export type Starter =
  /** This host does not distinguish starters: a run may use what the worker's options allow. */
  | { readonly kind: 'any' }
  /** Nothing proves who started the run: it may use no folder of this host, and no login. */
  | { readonly kind: 'unknown' }
  /** The owner of this host's state folder: a run may use what the worker's options allow, and what follows. */
  | ({ readonly kind: 'owner' } & OwnerPermissions);

export interface OwnerPermissions {
  /** Absolute folder of the spec. */
  readonly baseDir: string;
  /** Folders that the owner allowed for this run, absolute. */
  readonly allow: readonly string[];
  /** Repositories of the network that the owner let this run fetch, as HOST/PATH. */
  readonly allowGit: readonly string[];
}
