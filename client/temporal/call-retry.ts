/** Decides how soon a rejected call is repeated: as the SDK does, except for a workflow that is between two runs. */
import { defaultGrpcRetryOptions, type GrpcRetryOptions } from '@temporalio/client';

/** The gRPC status of a server that is overloaded. */
const RESOURCE_EXHAUSTED = 8;
/** The first wait of the SDK itself. */
const FIRST_WAIT_MS = 100;
const FIRST_WAIT_OF_A_BUSY_SERVER_MS = 1_000;
/**
 * The next run begins with the task that ends the previous run. Ten tries, each wait 1.7 times the one before, take 5
 * s.
 */
const FIRST_WAIT_BETWEEN_RUNS_MS = 20;

/** For `makeGrpcRetryInterceptor`. */
export function callRetry(): GrpcRetryOptions {
  return defaultGrpcRetryOptions({ initialIntervalMs: firstWaitMs });
}

function firstWaitMs({ code, details }: { readonly code: number; readonly details: string }): number {
  if (code !== RESOURCE_EXHAUSTED) return FIRST_WAIT_MS;
  // The message for an update while a run continues as new. The server is not overloaded, and the state ends at once.
  return details.includes('workflow is closing') ? FIRST_WAIT_BETWEEN_RUNS_MS : FIRST_WAIT_OF_A_BUSY_SERVER_MS;
}
