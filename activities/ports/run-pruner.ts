/** Deletes finished runs, and artifacts that no run names. Workers and a second prune may run at the same time. */

export interface PruneOptions {
  /** Keeps runs that finished less long ago than this; null: age keeps no run. */
  readonly olderThanMs: number | null;
  /** Keeps this many of the runs that finished last; null: count keeps no run. If both are null, all runs stay. */
  readonly keepLast: number | null;
  /**
   * True to delete artifacts that no run names without waiting for a day. Artifacts of the last 10 s stay, and so do
   * artifacts that were stored since an open run began. A dry run counts artifacts of the last 10 s as if they had
   * waited.
   */
  readonly artifactsNow?: boolean;
  /** True to report only what a prune would delete. */
  readonly dryRun: boolean;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
}

export interface PruneReport {
  /**
   * Ids of the runs that this prune removed (or would remove), sorted by their end. The list omits runs that another
   * prune removed.
   */
  readonly runs: readonly string[];
  /** The same runs with their bytes. */
  readonly removed: readonly { readonly runId: string; readonly sizeBytes: number }[];
  readonly runBytes: number;
  /** Ids (or the store's names) of runs that stay because their data does not show whether they may be deleted. */
  readonly damaged: readonly string[];
  readonly artifacts: number;
  /** The size of those artifacts in bytes. */
  readonly artifactBytes: number;
  /** Artifacts that no run names either, but that are too young to be deleted. */
  readonly youngArtifacts: number;
  readonly youngArtifactBytes: number;
}

export interface RunPruner {
  /** @throws CodedError `store/io` */
  prune(options: PruneOptions): Promise<PruneReport>;
}
