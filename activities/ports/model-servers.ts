/** Model servers on the worker's own host, which guests reach as services. */

/** A server that takes a connection does so at once: a longer wait says nothing of it. */
export const PROBE_LIMIT_MS = 1_000;

/**
 * True only if the host's kernel refuses a connection to this port of 127.0.0.1, so that nothing listens there. Any other
 * failure says nothing, and is false. Sends nothing.
 */
export type IsPortClosed = (port: number, signal: AbortSignal) => Promise<boolean>;
