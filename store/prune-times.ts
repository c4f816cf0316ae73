/** How long every store keeps artifacts that no run names. */

/** Younger artifacts stay: their run may not have written their names yet. */
export const ARTIFACT_GRACE_MS = 24 * 60 * 60 * 1000;
/**
 * The same time, if only artifacts that runs are about to name stay: between storing and naming are a few waits for the
 * store.
 */
export const NAMING_MS = 10_000;
