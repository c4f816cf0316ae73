/** The errors of a client. A wrong argument of a call is a `TypeError` instead. */
import type { Diagnostic, Problem } from './openapi.ts';

export interface ErrorFacts {
  readonly code: string;
  readonly status: number | null;
  readonly detail: string;
  readonly remedy: string | null;
  /** The error of `fetch`. */
  readonly cause?: unknown;
}

/** The class of all errors of a client. Texts of a service can contain output of guests: do not use them as HTML. */
export class VoidboxError extends Error {
  /** One of the error codes, such as `api/no-run`. */
  readonly code: string;
  /** The HTTP status; null: there was no answer. */
  readonly status: number | null;
  readonly detail: string;
  /** The way to repair it; null: unknown. */
  readonly remedy: string | null;

  constructor({ code, status, detail, remedy, cause }: ErrorFacts) {
    super(detail, cause === undefined ? {} : { cause });
    this.name = 'VoidboxError';
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.remedy = remedy;
  }
}

/** The service refused a request. */
export class ApiError extends VoidboxError {
  /** Repaired in the request (`usage`), in the machine or its server (`environment`), or in the run (`failed`). */
  readonly fault: Problem['fault'];
  /** The mistakes of a spec; empty for other refusals. */
  readonly diagnostics: readonly Diagnostic[];
  /** The time after which the service accepts requests again (429); null: unknown. */
  readonly retryAfterMs: number | null;

  constructor(problem: Problem, retryAfterMs: number | null) {
    super(problem);
    this.name = 'ApiError';
    this.fault = problem.fault;
    this.diagnostics = problem.diagnostics ?? [];
    this.retryAfterMs = retryAfterMs;
  }
}

/** The connection failed, or the service was silent for too long. The service may have the request. */
export class ConnectionError extends VoidboxError {
  /** True if a further try would fail in the same way: the certificate of the service is not accepted. */
  readonly isLasting: boolean;

  constructor(
    detail: string,
    cause?: unknown,
    remedy = 'Check `url`, and that the service runs there: voidbox up --listen HOST:PORT',
    isLasting = false,
  ) {
    super({ code: 'cli/no-service', status: null, detail, remedy, cause });
    this.name = 'ConnectionError';
    this.isLasting = isLasting;
  }
}

// Codes of OpenSSL and of Node for a certificate that proves nothing.
const CERTIFICATE_CODE = /^(?:ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_)/;

/** Names the reason that Node's `fetch` has in the cause of its error. A page learns no reason. */
export function describeConnection(name: string, error: unknown): ConnectionError {
  const cause = error instanceof Error ? error.cause : undefined;
  // A name with several addresses has an error for each.
  const reason: unknown = cause instanceof AggregateError ? cause.errors[0] : cause;
  if (!(reason instanceof Error)) return new ConnectionError(`cannot reach ${name}`, error);
  if (!('code' in reason && typeof reason.code === 'string' && CERTIFICATE_CODE.test(reason.code)))
    return new ConnectionError(`cannot reach ${name}: ${reason.message}`, error);
  return new ConnectionError(
    `the certificate of ${name} is not accepted: ${reason.message}`,
    error,
    'If the service has a certificate of its own, start Node with NODE_EXTRA_CA_CERTS=FILE. The name in the URL is the one in the certificate.',
    true,
  );
}

/** The answer is not one of Voidbox, or breaks a limit of the client. */
export class ForeignAnswerError extends VoidboxError {
  constructor(detail: string, status: number | null) {
    super({
      code: 'cli/no-service',
      status,
      detail,
      remedy: 'Check `url`, and a proxy in front of the service.',
    });
    this.name = 'ForeignAnswerError';
  }
}
