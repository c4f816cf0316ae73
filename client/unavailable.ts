/** A server that has gone, as clients see it. */

/** Of gRPC. */
const UNAVAILABLE = 14;

export function isUnavailable(error: unknown): boolean {
  return callErrorOf(error)?.code === UNAVAILABLE;
}

/** What the connection said, rather than which call of the SDK could not be made. */
export function serverWords(error: unknown): string {
  const { message } = callErrorOf(error) ?? {};
  return typeof message === 'string' ? message : String(error);
}

function callErrorOf(error: unknown): { readonly code?: unknown; readonly message?: unknown } | null {
  return error instanceof Error && typeof error.cause === 'object' ? error.cause : null;
}
