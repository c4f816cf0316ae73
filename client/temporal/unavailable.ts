/** A server that has gone, as clients see it. */

/** The gRPC status of a server that cannot be reached. */
const UNAVAILABLE = 14;
/** The gRPC status of a call that one side ended, and gRPC's text if it was the server. */
const CANCELLED = 1;
const RESET_DETAILS = 'Call cancelled';
/** The gRPC status of a call whose time is over. */
const DEADLINE_EXCEEDED = 4;

export function isUnavailable(error: unknown): boolean {
  return (callErrorOf(error) ?? findRawError(error))?.code === UNAVAILABLE;
}

/**
 * Whether the server did not answer a call in its time. Client and server both measure the time: if the server's is over
 * first, it resets the call.
 */
export function isUnanswered(error: unknown): boolean {
  const call = callErrorOf(error) ?? findRawError(error);
  return call?.code === DEADLINE_EXCEEDED || isReset(call);
}

/** A call that this program cancels has another text. */
function isReset(call: { readonly code?: unknown; readonly details?: unknown } | null): boolean {
  return call?.code === CANCELLED && call.details === RESET_DETAILS;
}

/** Returns the status of a failed gRPC call as a number; null for any other error. */
export function callStatus(error: unknown): number | null {
  const code = callErrorOf(error)?.code ?? (error as { readonly code?: unknown } | null)?.code;
  return typeof code === 'number' ? code : null;
}

/** Returns the message of the connection instead of the SDK's message about which call failed. */
export function serverMessageOf(error: unknown): string {
  const { message } = callErrorOf(error) ?? {};
  if (isReset(callErrorOf(error) ?? findRawError(error))) return 'the server ended the call, because its time was over';
  const { details } = (callErrorOf(error) ?? error ?? {}) as { readonly details?: unknown };
  // Without gRPC's number and name of the status, which `message` begins with.
  if (typeof details === 'string' && details !== '') return details;
  if (typeof message === 'string') return message;
  return error instanceof Error ? error.message : String(error);
}

function callErrorOf(
  error: unknown,
): { readonly code?: unknown; readonly details?: unknown; readonly message?: unknown } | null {
  return error instanceof Error && typeof error.cause === 'object' ? error.cause : null;
}

/** A call without the SDK's client fails with the error of gRPC itself. Errors of other programs have a number, too. */
function findRawError(error: unknown): { readonly code?: unknown; readonly details?: unknown } | null {
  const { details, metadata } = (error ?? {}) as { readonly details?: unknown; readonly metadata?: unknown };
  return error instanceof Error && typeof details === 'string' && metadata !== undefined ? (error as object) : null;
}
