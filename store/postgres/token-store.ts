import type { Scope } from '../../domain/access/scopes.ts';
import type { FoundToken, TokenRow, TokenStore } from '../access.ts';
import type { Database } from './database.ts';
import { fromStoredText, toStoredText } from './stored-text.ts';

interface StoredToken {
  readonly name: string;
  readonly hash: Buffer;
  readonly scopes: readonly string[];
  readonly runs: readonly string[];
  readonly groups: readonly string[];
  readonly allow_git: readonly string[];
  /** Times are `bigint`, which arrive as texts. */
  readonly created_at_ms: string;
  readonly expires_at_ms: string | null;
  readonly last_used_at_ms: string | null;
  readonly revoked_at_ms: string | null;
}

const ALL = 'name, hash, scopes, runs, groups, allow_git, created_at_ms, expires_at_ms, last_used_at_ms, revoked_at_ms';

export function createPostgresTokens(database: Database): TokenStore {
  const select = async (text: string, values: readonly unknown[]): Promise<readonly FoundToken[]> =>
    (await database.send(text, values, true)).map((row) => readToken(row as StoredToken));
  return {
    async create(token) {
      const { name, hash, scopes, runs, groups, allowGit, createdAtMs, expiresAtMs } = token;
      const lists = [scopes, runs, groups, allowGit].map((list) => list.map(toStoredText));
      // The hash is of random bytes. If a connection is lost after the insert, the second try finds the own row.
      const rows = await database.send(
        `WITH made AS (
           INSERT INTO voidbox.tokens (name, scopes, runs, groups, allow_git, hash, created_at_ms, expires_at_ms)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (name) DO NOTHING RETURNING name
         )
         SELECT name FROM made UNION ALL SELECT name FROM voidbox.tokens WHERE name = $1 AND hash = $6`,
        [toStoredText(name), ...lists, Buffer.from(hash), createdAtMs, expiresAtMs],
        true,
      );
      return rows.length > 0;
    },
    async list(names) {
      const text = `SELECT ${ALL} FROM voidbox.tokens WHERE $1::text[] IS NULL OR name = ANY($1) ORDER BY name`;
      return (await select(text, [names?.map(toStoredText) ?? null])).map(hideHash);
    },
    async listPage(limit, after) {
      const text = `SELECT ${ALL} FROM voidbox.tokens WHERE $2::text IS NULL OR name > $2 ORDER BY name LIMIT $1`;
      return (await select(text, [limit, after === undefined ? null : toStoredText(after)])).map(hideHash);
    },
    async find(hash) {
      const [found] = await select(`SELECT ${ALL} FROM voidbox.tokens WHERE hash = $1`, [Buffer.from(hash)]);
      return found ?? null;
    },
    async revoke(name, nowMs) {
      const [found] = await select(
        `UPDATE voidbox.tokens SET revoked_at_ms = coalesce(revoked_at_ms, $2) WHERE name = $1 RETURNING ${ALL}`,
        [toStoredText(name), nowMs],
      );
      return found === undefined ? null : hideHash(found);
    },
    async touch(name, nowMs) {
      await database.send(
        `UPDATE voidbox.tokens SET last_used_at_ms = $2
          WHERE name = $1 AND (last_used_at_ms IS NULL OR last_used_at_ms < $2)`,
        [toStoredText(name), nowMs],
        true,
      );
    },
  };
}

function readToken(row: StoredToken): FoundToken {
  return {
    name: fromStoredText(row.name),
    hash: new Uint8Array(row.hash),
    // Only tokens with known scopes are created.
    scopes: row.scopes.map(fromStoredText) as readonly Scope[],
    runs: row.runs.map(fromStoredText),
    groups: row.groups.map(fromStoredText),
    allowGit: row.allow_git.map(fromStoredText),
    createdAtMs: Number(row.created_at_ms),
    expiresAtMs: readTime(row.expires_at_ms),
    lastUsedAtMs: readTime(row.last_used_at_ms),
    revokedAtMs: readTime(row.revoked_at_ms),
  };
}

function readTime(stored: string | null): number | null {
  return stored === null ? null : Number(stored);
}

function hideHash({ hash: _hash, ...row }: FoundToken): TokenRow {
  return row;
}
