/** Answers to requests that fail: problem+json (RFC 9457) with a code of `domain/errors/`. */
import { STATUS_CODES } from 'node:http';
import { HTTPException } from 'hono/http-exception';
import { AppError, type Fault } from '../app/app-error.ts';
import { describeError } from '../app/describe-error.ts';
import { findTakenId } from '../app/start/start-run.ts';
import { SpecRefusal } from '../app/start/start-spec.ts';
import type { API_CODES } from '../domain/errors/api-codes.ts';
import type { Diagnostic } from '../domain/errors/diagnostic.ts';
import { type AnyErrorCode, remedyOf } from '../domain/errors/error-code.ts';
import { cutText } from '../domain/units/cut-text.ts';

export interface Problem {
  readonly status: number;
  /** The text of the status. */
  readonly title: string;
  readonly code: AnyErrorCode;
  readonly detail: string;
  readonly remedy: string | null;
  /** The side on which it is repaired, which decides the exit code of a command line. */
  readonly fault: Fault;
  /** The mistakes and warnings of a spec, with their places. */
  readonly diagnostics?: readonly Diagnostic[];
}

export const PROBLEM_TYPE = 'application/problem+json';

type ApiCode = keyof typeof API_CODES;

const API_STATUS: Readonly<Record<ApiCode, number>> = {
  'api/no-route': 404,
  'api/no-run': 404,
  'api/not-admitted': 503,
  'api/no-vm': 404,
  'api/no-session': 404,
  'api/session-exists': 409,
  'api/no-artifact': 404,
  'api/no-blob': 404,
  'api/wrong-hash': 422,
  'api/uploads-full': 507,
  'api/upload-refused': 422,
  'api/run-exists': 409,
  'api/key-reused': 409,
  'api/invalid-request': 400,
  'api/unsupported-body': 415,
  'api/too-large': 413,
  'api/too-slow': 408,
  'api/too-many-connections': 503,
  'api/foreign-request': 403,
  'api/no-token': 401,
  'api/not-allowed': 403,
  'api/too-many-requests': 429,
  'api/no-such-token': 404,
  'api/token-exists': 409,
  'api/access-unavailable': 503,
  'api/no-hook': 404,
  'api/no-delivery': 404,
  'api/no-notification': 404,
  'api/delivery-open': 409,
  'api/no-deployment': 404,
  'api/no-schedule': 404,
  'api/hook-method': 405,
  'api/hook-unproven': 401,
  'api/hook-failed': 500,
  'api/busy': 503,
  'api/messages-full': 507,
  'api/skill-not-loaded': 409,
  'api/no-secret': 404,
  'api/secrets-full': 507,
  'api/secrets-key': 503,
  'api/secret-damaged': 503,
  'api/no-address': 503,
  'api/no-link': 404,
  'api/bug': 500,
};

/** Other codes have the status of their fault. */
const OTHER_STATUS: ReadonlyMap<string, number> = new Map([
  ['spec/invalid', 422],
  ['trigger/unknown', 404],
  ['admit/unsupported-work', 422],
  ['cli/variable-invalid', 422],
  ['host/variable-missing', 422],
  ['cli/mount-missing', 422],
  ['cli/skill-missing', 422],
  ['cli/image-missing', 422],
  ['cli/image-unfit', 422],
  ['cli/workspace-subfolder', 422],
  ['admit/mount-refused', 403],
  ['admit/service-refused', 403],
  ['cli/mount-refused', 403],
  ['cli/skill-refused', 403],
  ['cli/image-refused', 403],
  ['cli/git-refused', 403],
  ['cli/mount-git', 403],
  ['cli/answer-refused', 409],
  ['cli/command-run', 409],
  ['cli/run-elsewhere', 409],
  ['cli/run-pruned', 410],
  ['deploy/no-version', 404],
  ['deploy/circle', 422],
  ['deploy/secret-missing', 422],
  ['deploy/too-costly', 422],
  ['deploy/secrets-elsewhere', 422],
]);

const FAULT_STATUS: Readonly<Record<Fault, number>> = { usage: 400, environment: 503, failed: 409 };

/** Creates the error of a request that the API itself refuses. */
export function createRequestError(code: ApiCode, message: string): AppError {
  return new AppError('usage', code, message);
}

/** Makes the problem of an API code, for answers that no route gives. */
export function createProblem(code: ApiCode, detail: string, status: number = API_STATUS[code]): Problem {
  const fault = status < 500 ? 'usage' : status === 500 ? 'failed' : 'environment';
  return { status, title: describeStatus(status), code, detail, remedy: remedyOf(code), fault };
}

/** @returns null for a bug */
export async function toProblem(error: unknown): Promise<Problem | null> {
  if (error instanceof HTTPException) return toRequestProblem(error);
  const taken = findTakenId(error);
  if (taken !== null) return createProblem('api/run-exists', cutText(`run ${taken} already exists`));
  const facts = await describeError(error);
  if (facts === null) return null;
  const { fault, code, message, remedy } = facts;
  const apiStatus = (API_STATUS as Readonly<Record<string, number>>)[code];
  const status = apiStatus ?? OTHER_STATUS.get(code) ?? FAULT_STATUS[fault];
  return {
    status,
    title: describeStatus(status),
    code,
    // A message may quote a part of the request.
    detail: cutText(message),
    remedy: remedy ?? (apiStatus === undefined ? null : remedyOf(code)),
    fault,
    ...(error instanceof SpecRefusal ? { diagnostics: error.diagnostics } : {}),
  };
}

/** The packages of the routes refuse some requests themselves. */
function toRequestProblem({ status, message }: HTTPException): Problem | null {
  if (status >= 500) return null;
  if (status === API_STATUS['api/unsupported-body'])
    return createProblem('api/unsupported-body', 'the route does not accept the `Content-Type` of the body');
  return createProblem('api/invalid-request', cutText(message === '' ? describeStatus(status) : message), status);
}

export function toProblemResponse(problem: Problem, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(`${JSON.stringify(problem)}\n`, {
    status: problem.status,
    headers: { ...headers, 'content-type': PROBLEM_TYPE },
  });
}

function describeStatus(status: number): string {
  return STATUS_CODES[status] ?? 'Error';
}
