/** Deletes finished runs, and artifacts that no run names. Workers and a second prune may run at the same time. */

export interface PruneOptions {
  /** Runs that finished less long ago than this stay; null protects none by age. */
  readonly olderThanMs: number | null;
  /** This many of the runs that finished last stay; null protects none by count. With neither, all runs stay. */
  readonly keepLast: number | null;
  /**
   * Artifacts that no run names go without waiting for a day: all but those of the last 10 s, and those that were
   * stored since an open run began. A dry run counts the former as if they had waited.
   */
  readonly artifactsNow?: boolean;
  /** Says what would go and leaves it. */
  readonly dryRun: boolean;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
}

export interface PruneReport {
  /** Ids of the runs that this prune removed (or would remove), sorted by their end. A run that another prune removed is not listed. */
  readonly runs: readonly string[];
  /** The same runs with their bytes. */
  readonly removed: readonly { readonly runId: string; readonly sizeBytes: number }[];
  readonly runBytes: number;
  /** Ids (or the store's names) of runs that stay because it cannot be read whether they may go. */
  readonly damaged: readonly string[];
  readonly artifacts: number;
  /** Bytes of those artifacts. */
  readonly artifactBytes: number;
  /** Artifacts that no run names either and that are too young to go. */
  readonly youngArtifacts: number;
  readonly youngArtifactBytes: number;
}

export interface RunPruner {
  /** @throws CodedError `store/io` */
  prune(options: PruneOptions): Promise<PruneReport>;
}
