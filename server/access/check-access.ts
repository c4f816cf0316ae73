/**
 * Decides who sent a request and whether the caller may use the route. A request over TCP needs a token; a change is
 * written to the audit log with its outcome.
 */
import type { Context, MiddlewareHandler } from 'hono';
import { routePath } from 'hono/route';
import type { OpenAccess } from '../../app/access/access-opener.ts';
import { authenticate, requireRun, requireScope, requireSession } from '../../app/access/authenticate.ts';
import { AppError } from '../../app/app-error.ts';
import type { FoundToken, TokenRow } from '../../store/access.ts';
import { type Connection, getClientAddress, getConnection, onAnswered } from '../listener.ts';
import { createRequestError, toProblem } from '../problems.ts';
import { readSegment } from '../routes/run-id.ts';
import { getChangedRuns, setCaller } from './caller.ts';
import { createRateLimits } from './rate-limits.ts';
import { findRouteAccess } from './route-scopes.ts';
import { TooManyRequests } from './too-many-requests.ts';
import { createTokenWatch } from './token-watch.ts';

/** The last use of a token is written at most this often. */
const TOUCH_EVERY_MS = 60_000;
const MOST_RATE_KEYS = 10_000;
const READS: ReadonlySet<string> = new Set(['GET', 'HEAD']);

export interface AccessOptions {
  readonly access: OpenAccess;
  /** The token that is in no database; null: no such token. */
  readonly daemon: FoundToken | null;
  readonly nowMs: () => number;
  readonly requestsPerSecond: number;
  readonly checkTokensEveryMs: number;
  readonly log: (line: string) => void;
}

export function createAccessCheck(options: AccessOptions): MiddlewareHandler {
  const { access, nowMs, requestsPerSecond, checkTokensEveryMs, log } = options;
  const rates = createRateLimits({ requestsPerSecond, mostKeys: MOST_RATE_KEYS, nowMs });
  const watch = createTokenWatch({ access, nowMs, checkEveryMs: checkTokensEveryMs, log });
  return async (context, next) => {
    const connection = getConnection(context);
    if (connection.listener === 'unix') {
      setCaller(context, { kind: 'owner' });
      return await next();
    }
    const route = routePath(context, -1);
    const wanted = findRouteAccess(context.req.method, route);
    if (wanted === 'public') return await next();
    const token = await findToken(context, connection, { ...options, rates });
    // The daemon's token is valid until the service ends.
    if (token !== options.daemon) onAnswered(context, watch.hold(token, connection).release);
    const outcome: Outcome = { token, route };
    try {
      refuseRoute(context, token, wanted);
      setCaller(context, { kind: 'token', token });
      await next();
    } catch (error) {
      await writeAudit(context, { ...outcome, error }, options);
      throw error;
    }
    await writeAudit(context, outcome, options);
  };
}

interface Finding extends AccessOptions {
  readonly rates: ReturnType<typeof createRateLimits>;
}

async function findToken(
  { req }: Context,
  { address }: Connection,
  { access, daemon, nowMs, rates, log }: Finding,
): Promise<TokenRow> {
  const openTokens = async () => (await access('find')).tokens;
  let token: TokenRow;
  try {
    token = await authenticate(req.header('authorization'), { openTokens, nowMs: nowMs(), daemon });
  } catch (error) {
    if (error instanceof AppError && error.code === 'api/no-token') refuseMany(rates.count(`address ${address}`));
    throw error;
  }
  refuseMany(rates.count(`token ${token.name}`));
  if (token !== daemon && nowMs() - (token.lastUsedAtMs ?? 0) >= TOUCH_EVERY_MS)
    await openTokens()
      .then((tokens) => tokens.touch(token.name, nowMs()))
      .catch((error: unknown) => log(`the last use of the token ${token.name}: ${(error as Error).message}`));
  return token;
}

function refuseMany(waitMs: number | null): void {
  if (waitMs !== null) throw new TooManyRequests(waitMs);
}

/** @param wanted  null: the route does not exist, or has no scope */
function refuseRoute(context: Context, token: TokenRow, wanted: ReturnType<typeof findRouteAccess>): void {
  const caller = { kind: 'token', token } as const;
  const { method, path } = context.req;
  // Only the checks around the routes match every path.
  if (wanted === null && routePath(context, -1) === '/*')
    throw createRequestError('api/no-route', `there is no route ${method} ${path}`);
  if (wanted === null) throw createRequestError('api/not-allowed', 'no token may use this route');
  if (wanted !== 'public') requireScope(caller, wanted);
  const runId = readNamed(context, routePath(context, -1), ':runId');
  if (runId !== null) requireRun(caller, runId);
  const session = readNamed(context, routePath(context, -1), ':session');
  if (session !== null) requireSession(caller, session);
}

interface Outcome {
  readonly token: TokenRow;
  readonly route: string;
  /** Thrown before the route; absent: the route has an answer. */
  readonly error?: unknown;
}

/** The row names the change and its outcome, and no value of the request. */
async function writeAudit(
  context: Context,
  { token, route, error }: Outcome,
  { access, nowMs, log }: AccessOptions,
): Promise<void> {
  const { req, res } = context;
  if (READS.has(req.method)) return;
  const failure = error ?? context.error;
  const changed = getChangedRuns(context);
  const runIds = changed.length > 0 ? changed : [findRunOf(context, route)];
  try {
    const problem = failure === undefined ? null : await toProblem(failure);
    const { audit } = await access('find');
    const row = {
      atMs: nowMs(),
      token: token.name,
      address: getClientAddress(context),
      method: req.method,
      route,
      status: error === undefined ? res.status : (problem?.status ?? 500),
      code: failure === undefined ? null : (problem?.code ?? 'api/bug'),
    };
    for (const runId of runIds) await audit.add({ ...row, runId });
  } catch (cause) {
    // The change is made, so the answer must not claim that it failed.
    const change = `${req.method} ${route} of the token ${token.name} from ${getClientAddress(context)}`;
    const named = runIds.flatMap((runId) => (runId === null ? [] : [`, run ${JSON.stringify(runId)}`])).join('');
    log(`the audit log lacks ${change}${named}: ${(cause as Error).message}`);
  }
}

/** @returns null for a route without this part */
function readNamed(context: Context, route: string, part: ':runId' | ':session'): string | null {
  const at = route.split('/').indexOf(part);
  return at === -1 ? null : readSegment(context, at, 'the id');
}

/** Returns the run or the session of the path, or the started one; null for a route about neither. */
function findRunOf(context: Context, route: string): string | null {
  try {
    const named = readNamed(context, route, ':runId') ?? readNamed(context, route, ':session');
    if (named !== null) return named;
  } catch {
    return null;
  }
  const started = /^(?:\/api)?\/v1\/(?:runs|sessions)\/([^/]+)$/.exec(context.res.headers.get('location') ?? '')?.[1];
  return started === undefined ? null : decodeURIComponent(started);
}
