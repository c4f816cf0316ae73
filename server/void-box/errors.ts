/** Errors of the routes below `/v1`: clients of Void-Box read `code`, `message` and `retryable`. */
import { AppError } from '../../app/app-error.ts';
import { toErrorBody, type VoidBoxCode } from '../../domain/void-box/error-codes.ts';
import type { Problem } from '../problems.ts';

/** Whether a path is one of Void-Box's API, so that its errors have that form. */
export function isVoidBoxPath(path: string): boolean {
  return path === '/v1' || path.startsWith('/v1/');
}

type OwnCode = 'api/invalid-request' | 'api/no-run' | 'api/no-artifact';

/** An error that only this API has. */
export class VoidBoxError extends AppError {
  readonly voidBoxCode: VoidBoxCode;
  readonly status: number;

  constructor(status: number, voidBoxCode: VoidBoxCode, code: OwnCode, message: string) {
    super('usage', code, message);
    this.name = 'VoidBoxError';
    this.voidBoxCode = voidBoxCode;
    this.status = status;
  }
}

export function createInvalidError(
  code: 'INVALID_SPEC' | 'INVALID_POLICY' | 'INVALID_PARAMS',
  message: string,
): VoidBoxError {
  return new VoidBoxError(400, code, 'api/invalid-request', message);
}

/** The code of a problem, by its own code. Any other problem is an `INTERNAL_ERROR`. */
const CODE_OF_PROBLEM: ReadonlyMap<string, VoidBoxCode> = new Map<string, VoidBoxCode>([
  ['api/no-route', 'NOT_FOUND'],
  ['api/no-run', 'NOT_FOUND'],
  ['cli/run-pruned', 'NOT_FOUND'],
  ['api/no-artifact', 'ARTIFACT_NOT_FOUND'],
  ['api/run-exists', 'ALREADY_TERMINAL'],
  ['api/invalid-request', 'INVALID_PARAMS'],
  ['api/unsupported-body', 'INVALID_PARAMS'],
  ['api/too-large', 'PAYLOAD_TOO_LARGE'],
  ['api/too-slow', 'RETRIEVAL_TIMEOUT'],
  ['api/too-many-requests', 'TOO_MANY_REQUESTS'],
  ['api/too-many-connections', 'RESOURCE_LIMIT_EXCEEDED'],
  ['api/messages-full', 'RESOURCE_LIMIT_EXCEEDED'],
  ['host/disk-full', 'RESOURCE_LIMIT_EXCEEDED'],
  ['api/no-token', 'UNAUTHORIZED'],
  ['api/not-allowed', 'UNAUTHORIZED'],
  ['store/damaged', 'ARTIFACT_STORE_UNAVAILABLE'],
  ['store/io', 'ARTIFACT_STORE_UNAVAILABLE'],
]);

/** Bodies of these routes are specs for Void-Box, also if they are no JSON. */
const SPEC_ROUTES = /^\/v1\/(?:runs|sessions\/[^/]+\/messages)$/;

export function toVoidBoxResponse(
  error: unknown,
  { code, detail, remedy, status }: Problem,
  {
    method,
    path,
    headers,
  }: { readonly method: string; readonly path: string; readonly headers: Readonly<Record<string, string>> },
): Response {
  const isSpec = method === 'POST' && SPEC_ROUTES.test(path);
  const known = CODE_OF_PROBLEM.get(code) ?? 'INTERNAL_ERROR';
  const isOwn = error instanceof VoidBoxError;
  const body = toErrorBody(
    isOwn ? error.voidBoxCode : isSpec && known === 'INVALID_PARAMS' ? 'INVALID_SPEC' : known,
    isOwn || remedy === null ? detail : `${detail}. ${remedy}`,
  );
  const answer = new Response(JSON.stringify(body), { status: isOwn ? error.status : status, headers });
  answer.headers.set('content-type', 'application/json');
  return answer;
}
