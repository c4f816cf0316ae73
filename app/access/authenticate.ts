/** Finds the token of a request, and checks what it may do. */
import { timingSafeEqual } from 'node:crypto';
import { maySeeRun } from '../../domain/access/run-glob.ts';
import { hasScope, type Scope } from '../../domain/access/scopes.ts';
import { isTokenText } from '../../domain/access/token-text.ts';
import { outermostSession } from '../../domain/step-machine/session-id.ts';
import { shorten } from '../../domain/units/quote.ts';
import type { FoundToken, TokenRow, TokenStore } from '../../store/access.ts';
import { AppError } from '../app-error.ts';
import { hashToken } from './tokens.ts';

/** The starter and reader of runs: the owner of the state folder, or a token. */
export type Caller = { readonly kind: 'owner' } | { readonly kind: 'token'; readonly token: TokenRow };

/**
 * @param authorization  the header
 * @param daemon  the token that is in no database; null: no such token
 * @param openTokens  is not called for a request that cannot have a token, so that a stranger starts no database
 * @throws AppError `api/no-token`
 */
export async function authenticate(
  authorization: string | undefined,
  {
    openTokens,
    nowMs,
    daemon = null,
  }: {
    readonly openTokens: () => Promise<TokenStore>;
    readonly nowMs: number;
    readonly daemon?: FoundToken | null;
  },
): Promise<TokenRow> {
  const text = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  if (authorization === undefined) throw createNoTokenError('a request over TCP needs a token');
  const hash = hashToken(text ?? '');
  if (text !== undefined && daemon !== null && timingSafeEqual(daemon.hash, hash)) return daemon;
  if (text === undefined || !isTokenText(text))
    throw createNoTokenError('the header `Authorization` does not contain a token of Voidbox');
  const found = await (await openTokens()).find(hash);
  // The database found the row by its index; this comparison does not stop at the first different byte.
  if (found === null || !timingSafeEqual(found.hash, hash)) throw createNoTokenError('the token is not known');
  requireValid(found, nowMs);
  return found;
}

export function isValidNow({ revokedAtMs, expiresAtMs }: TokenRow, nowMs: number): boolean {
  return revokedAtMs === null && (expiresAtMs === null || expiresAtMs > nowMs);
}

/** @throws AppError `api/no-token` for a token that is revoked or has expired */
function requireValid(token: TokenRow, nowMs: number): void {
  if (isValidNow(token, nowMs)) return;
  const { name, revokedAtMs, expiresAtMs } = token;
  throw createNoTokenError(
    revokedAtMs === null
      ? `the token ${name} expired at ${new Date(expiresAtMs ?? 0).toISOString()}`
      : `the token ${name} was revoked`,
  );
}

/** @throws AppError `api/not-allowed` */
export function requireScope(caller: Caller, wanted: Scope): void {
  if (caller.kind === 'owner' || hasScope(caller.token.scopes, wanted)) return;
  const { name, scopes } = caller.token;
  throw createNotAllowedError(`the token ${name} has the scope ${scopes.join(', ')}; the request needs ${wanted}`);
}

/**
 * The answer for a run that exists equals the answer for one that does not.
 * @throws AppError `api/not-allowed`
 */
export function requireRun(caller: Caller, runId: string): void {
  if (caller.kind === 'owner' || maySeeRun(caller.token.runs, runId)) return;
  const { name, runs } = caller.token;
  throw createNotAllowedError(
    `the token ${name} may not see the run \`${shorten(runId)}\`: its runs are ${runs.map((glob) => `\`${shorten(glob)}\``).join(', ')}`,
  );
}

/**
 * A called session belongs to its outermost caller. The answer for a session that exists equals the answer for one that
 * does not.
 * @throws AppError `api/not-allowed`
 */
export function requireSession(caller: Caller, session: string): void {
  if (mayUseSession(caller, session) || caller.kind === 'owner') return;
  const { name, runs } = caller.token;
  throw createNotAllowedError(
    `the token ${name} may not use the session \`${shorten(session)}\`: its patterns are ${runs.map((glob) => `\`${shorten(glob)}\``).join(', ')}`,
  );
}

/** Whether the patterns of the caller's token match the id of the session. */
export function mayUseSession(caller: Caller, session: string): boolean {
  return caller.kind === 'owner' || maySeeRun(caller.token.runs, outermostSession(session));
}

function createNoTokenError(message: string): AppError {
  return new AppError('usage', 'api/no-token', message);
}

function createNotAllowedError(message: string): AppError {
  return new AppError('usage', 'api/not-allowed', message);
}
