/** A server that has gone, as clients see it. */

/** The gRPC status of a server that cannot be reached. */
const UNAVAILABLE = 14;

export function isUnavailable(error: unknown): boolean {
  return callErrorOf(error)?.code === UNAVAILABLE;
}

/** Returns the status of a failed gRPC call as a number; null for any other error. */
export function callStatus(error: unknown): number | null {
  const code = callErrorOf(error)?.code ?? (error as { readonly code?: unknown } | null)?.code;
  return typeof code === 'number' ? code : null;
}

/** Returns the message of the connection instead of the SDK's message about which call failed. */
export function serverMessageOf(error: unknown): string {
  const { message } = callErrorOf(error) ?? {};
  const { details } = (callErrorOf(error) ?? error ?? {}) as { readonly details?: unknown };
  // Without gRPC's number and name of the status, which `message` begins with.
  if (typeof details === 'string' && details !== '') return details;
  if (typeof message === 'string') return message;
  return error instanceof Error ? error.message : String(error);
}

function callErrorOf(error: unknown): { readonly code?: unknown; readonly message?: unknown } | null {
  return error instanceof Error && typeof error.cause === 'object' ? error.cause : null;
}
