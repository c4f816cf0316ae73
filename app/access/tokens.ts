/** Creates, lists and revokes tokens of the HTTP API. */
import { createHash, randomBytes } from 'node:crypto';
import { MOST_RUN_GLOBS, RUN_GLOB_BYTES } from '../../domain/access/run-glob.ts';
import type { Scope } from '../../domain/access/scopes.ts';
import { DAEMON_TOKEN_NAME, findTokenNameProblem, TOKEN_BYTES, TOKEN_PREFIX } from '../../domain/access/token-text.ts';
import { shorten } from '../../domain/units/quote.ts';
import { countUtf8Bytes } from '../../domain/units/utf8.ts';
import type { TokenRow, TokenStore } from '../../store/access.ts';
import { AppError } from '../app-error.ts';
import { parsePlaces } from '../start/plan-addresses.ts';

export const MOST_TOKEN_GROUPS = 32;
export const MOST_TOKEN_REPOSITORIES = 100;
const DAY_MS = 24 * 60 * 60_000;
/** The life of a token that names no other. */
export const TOKEN_LIFE_MS = 90 * DAY_MS;
export const MOST_TOKEN_LIFE_MS = 3_660 * DAY_MS;

export interface TokenRequest {
  readonly name: string;
  /** At least one. */
  readonly scopes: readonly Scope[];
  /** Patterns of ids; empty: every run. */
  readonly runs: readonly string[];
  readonly groups: readonly string[];
  /** Repositories as HOST/PATH. */
  readonly allowGit: readonly string[];
  /** Null: it does not expire. */
  readonly lifeMs: number | null;
}

export interface CreatedToken {
  readonly token: TokenRow;
  /** The text that clients send. It is not stored, so it is shown only once. */
  readonly text: string;
}

/** @throws AppError `api/invalid-request`, `api/token-exists` */
export async function createToken(
  request: TokenRequest,
  { tokens, nowMs }: { readonly tokens: TokenStore; readonly nowMs: number },
): Promise<CreatedToken> {
  const { name, lifeMs, ...rest } = request;
  checkRequest(request);
  const text = `${TOKEN_PREFIX}${randomBytes(TOKEN_BYTES).toString('base64url')}`;
  const row = {
    ...rest,
    name,
    scopes: [...new Set(rest.scopes)],
    allowGit: parsePlaces(rest.allowGit),
    createdAtMs: nowMs,
    expiresAtMs: lifeMs === null ? null : nowMs + lifeMs,
  };
  if (!(await tokens.create({ ...row, hash: hashToken(text) })))
    throw new AppError('usage', 'api/token-exists', `a token with the name \`${name}\` exists`);
  return { token: { ...row, lastUsedAtMs: null, revokedAtMs: null }, text };
}

export interface TokenPage {
  readonly tokens: readonly TokenRow[];
  /** The `after` of the next page; null if no token follows. */
  readonly next: string | null;
}

/**
 * Returns a page of tokens, also expired and revoked ones, by name.
 * @param after  the name before the page; absent: the first page
 */
export async function listTokens(
  { limit, after }: { readonly limit: number; readonly after?: string },
  tokens: TokenStore,
): Promise<TokenPage> {
  // One token more than the page tells whether a token follows.
  const found = await tokens.listPage(limit + 1, after);
  const page = found.slice(0, limit);
  return { tokens: page, next: found.length > page.length ? page.at(-1)!.name : null };
}

/** @throws AppError `api/no-such-token` */
export async function revokeToken(
  name: string,
  { tokens, nowMs }: { readonly tokens: TokenStore; readonly nowMs: number },
): Promise<TokenRow> {
  const row = findTokenNameProblem(name) === null ? await tokens.revoke(name, nowMs) : null;
  if (row === null) throw new AppError('usage', 'api/no-such-token', `no token has the name \`${shorten(name)}\``);
  return row;
}

export function hashToken(text: string): Uint8Array {
  return createHash('sha256').update(text).digest();
}

function checkRequest({ name, scopes, runs, groups, allowGit, lifeMs }: TokenRequest): void {
  const nameProblem = findTokenNameProblem(name);
  if (nameProblem !== null) refuse('name', name, nameProblem);
  // The audit log could not tell the two apart.
  if (name === DAEMON_TOKEN_NAME) refuse('name', name, 'it is the name of the token of `voidbox serve --token-file`');
  if (scopes.length === 0) refuse('scopes', '', 'a token has at least one scope');
  requireAtMost('runs', runs, MOST_RUN_GLOBS);
  for (const glob of runs)
    if (glob === '' || countUtf8Bytes(glob) > RUN_GLOB_BYTES)
      refuse('runs', glob, `a pattern has 1 to ${RUN_GLOB_BYTES} bytes`);
  requireAtMost('groups', groups, MOST_TOKEN_GROUPS);
  for (const group of groups) {
    const problem = findTokenNameProblem(group);
    if (problem !== null) refuse('groups', group, problem);
  }
  requireAtMost('allowGit', allowGit, MOST_TOKEN_REPOSITORIES);
  if (lifeMs !== null && !(lifeMs > 0 && lifeMs <= MOST_TOKEN_LIFE_MS))
    refuse('expires', `${lifeMs} ms`, `a token lives at most ${MOST_TOKEN_LIFE_MS / DAY_MS} days`);
}

function requireAtMost(key: string, values: readonly string[], most: number): void {
  if (values.length > most) refuse(key, `${values.length} values`, `there may be at most ${most}`);
}

function refuse(key: string, value: string, problem: string): never {
  throw new AppError('usage', 'api/invalid-request', `\`${key}\`: \`${shorten(value)}\` is not valid: ${problem}`);
}
