/** Model servers on the worker's own host, which guests reach as services. */

/**
 * The time limit of a probe. A running server accepts a connection at once; after a longer wait the state is unknown.
 */
export const PROBE_LIMIT_MS = 1_000;

/**
 * Returns true only if the host's kernel refuses a connection to this port of 127.0.0.1, so that no server listens
 * there. Any other failure is inconclusive and returns false. Sends no data.
 */
export type IsPortClosed = (port: number, signal: AbortSignal) => Promise<boolean>;
