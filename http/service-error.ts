/** Errors of a service on another machine: its problems, and connections to it that fail. */
import { CodedError } from '../domain/errors/coded-error.ts';
import { type AnyErrorCode, toErrorCode } from '../domain/errors/error-code.ts';
import { sanitizeLine } from '../domain/security/sanitize.ts';
import { cutText } from '../domain/units/cut-text.ts';

/** The side on which the error is repaired, as for errors of use-cases. */
export type ServiceFault = 'usage' | 'environment' | 'failed';

export interface ServiceErrorFacts {
  readonly fault: ServiceFault;
  readonly code: AnyErrorCode;
  readonly remedy: string | null;
  /** The HTTP status; absent: there was no answer. */
  readonly status?: number;
  /** Diagnostics of a spec, as the service sent them. */
  readonly diagnostics?: unknown;
}

/** The service refused a request, or gave an answer that is not of Voidbox. */
export class ServiceError extends Error {
  readonly fault: ServiceFault;
  readonly code: AnyErrorCode;
  readonly remedy: string | null;
  readonly status: number | null;
  readonly diagnostics: unknown;

  constructor(message: string, { fault, code, remedy, status, diagnostics }: ServiceErrorFacts) {
    super(message);
    this.name = 'ServiceError';
    this.fault = fault;
    this.code = code;
    this.remedy = remedy;
    this.status = status ?? null;
    this.diagnostics = diagnostics;
  }
}

export type ConnectionProblem = 'absent' | 'refused' | 'broken';

/** The connection failed, or ended too early. The same request may succeed later. */
export class ConnectionError extends ServiceError {
  /** `absent`: there is no such socket or host. `refused`: nothing was sent. `broken`: the service may have the request. */
  readonly kind: ConnectionProblem;

  constructor(message: string, kind: ConnectionProblem) {
    const remedy = 'Check VOIDBOX_SERVER or your login, and that the service runs there: voidbox up --listen HOST:PORT';
    super(message, { fault: 'environment', code: 'cli/no-service', remedy });
    this.name = 'ConnectionError';
    this.kind = kind;
  }
}

export function isServiceError(error: unknown): error is ServiceError {
  return error instanceof ServiceError;
}

/** The service has no run with the id of the request. */
export function isUnknownRun(error: unknown): boolean {
  return isServiceError(error) && error.code === 'api/no-run';
}

export const PROBLEM_TYPE = 'application/problem+json';

/** @param name  the service, for messages */
export function readProblem(name: string, status: number, mediaType: string, text: string): Error {
  const problem = mediaType.startsWith(PROBLEM_TYPE) ? parseProblem(text) : null;
  if (problem === null)
    return new ServiceError(`${name} answers with the status ${status}, and not as Voidbox does`, {
      fault: 'environment',
      code: 'cli/no-service',
      status,
      remedy: 'Check VOIDBOX_SERVER or your login, and a proxy in front of the service.',
    });
  return toError(problem, status);
}

/** Damage of a store is the error that a store of this machine throws, because readers expect it. */
export function toError({ code, detail, remedy, fault, diagnostics }: ServiceProblem, status: number): Error {
  const message = cutText(sanitizeLine(detail));
  if (code.startsWith('store/')) return new CodedError(toErrorCode(code), message);
  return new ServiceError(message, {
    // A variable of this machine repairs it.
    fault: status === 401 ? 'environment' : (fault ?? readFault(status)),
    code: toErrorCode(code),
    remedy: status === 401 ? REMEDY_OF_401 : remedy,
    status,
    diagnostics,
  });
}

const REMEDY_OF_401 =
  'Set VOIDBOX_TOKEN to a token of that service, or log in with one: voidbox login URL. On its machine, this makes one: voidbox token create NAME --scope run';

export interface ServiceProblem {
  readonly code: string;
  readonly detail: string;
  readonly remedy: string | null;
  readonly fault: ServiceFault | null;
  readonly status: number | null;
  readonly diagnostics?: unknown;
}

/** @returns null for a text that is not a problem */
export function parseProblem(text: string): ServiceProblem | null {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof read !== 'object' || read === null) return null;
  const { code, detail, remedy, fault, status, diagnostics } = read as Partial<Record<string, unknown>>;
  if (typeof code !== 'string' || typeof detail !== 'string' || !/^[a-z][\w-]*\/[\w-]+$/.test(code)) return null;
  return {
    code,
    detail,
    remedy: typeof remedy === 'string' ? remedy : null,
    fault: FAULTS.find((one) => one === fault) ?? null,
    status: typeof status === 'number' ? status : null,
    diagnostics,
  };
}

const FAULTS: readonly ServiceFault[] = ['usage', 'environment', 'failed'];

function readFault(status: number): ServiceFault {
  if (status === 401 || status === 429 || status >= 500) return 'environment';
  return status === 409 ? 'failed' : 'usage';
}
