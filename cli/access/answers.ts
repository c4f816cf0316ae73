/** Answers of the API of this machine about tokens. Its process may be of another build, so each answer is checked. */
import { createEnvironmentError } from '../../app/app-error.ts';
import type { AuditPage } from '../../app/access/audit.ts';
import type { AuditRow, TokenRow } from '../../store/access.ts';

export interface CreatedAnswer extends TokenRow {
  readonly text: string;
}

const TOKEN_FIELDS = [
  'name',
  'scopes',
  'runs',
  'groups',
  'allowGit',
  'createdAtMs',
  'expiresAtMs',
  'lastUsedAtMs',
  'revokedAtMs',
];
const AUDIT_FIELDS = ['id', 'atMs', 'token', 'address', 'method', 'route', 'runId', 'status', 'code'];

export function parseToken(answer: unknown): TokenRow {
  if (hasFields(answer, TOKEN_FIELDS)) return answer as unknown as TokenRow;
  throw createForeignError();
}

export function parseCreatedToken(answer: unknown): CreatedAnswer {
  const token = parseToken(answer);
  if ('text' in token && typeof token.text === 'string') return token as CreatedAnswer;
  throw createForeignError();
}

/** A page of tokens. `next` is the cursor of the next page; null: no token follows. */
export interface TokensAnswer {
  readonly tokens: readonly TokenRow[];
  readonly next: string | null;
}

export function parseTokens(answer: unknown): TokensAnswer {
  const { tokens, next = null } = (answer ?? {}) as { readonly tokens?: unknown; readonly next?: unknown };
  if (Array.isArray(tokens) && (next === null || typeof next === 'string'))
    return { tokens: tokens.map(parseToken), next };
  throw createForeignError();
}

export function parseAudit(answer: unknown): AuditPage {
  const { rows, next } = (answer ?? {}) as { readonly rows?: unknown; readonly next?: unknown };
  if (!Array.isArray(rows) || !rows.every((row) => hasFields(row, AUDIT_FIELDS))) throw createForeignError();
  return { rows: rows as readonly AuditRow[], next: typeof next === 'number' ? next : null };
}

function hasFields(value: unknown, names: readonly string[]): boolean {
  return typeof value === 'object' && value !== null && names.every((name) => name in value);
}

/** The error for an answer that this version does not know. */
export function createForeignError(): Error {
  return createEnvironmentError(
    'cli/no-server',
    'the HTTP API of this machine gave an answer of another version',
    'Restart the stack with this version: voidbox down && voidbox up',
  );
}
