import type { ApprovalLinkStore } from '../triggers.ts';
import type { Database } from './database.ts';

export function createPostgresApprovalLinks(database: Database): ApprovalLinkStore {
  return {
    async claim({ hash, expiresAtMs }, { token, nowMs, leaseMs }) {
      // An own claim is found again if the connection was lost during its commit.
      const rows = await database.send(
        `INSERT INTO voidbox.approval_links AS link (hash, claim, lease_until_ms, expires_at_ms)
         VALUES ($1, $2, $3, $4)
         ON CONFLICT (hash) DO UPDATE SET claim = $2, lease_until_ms = $3
           WHERE link.used_at_ms IS NULL AND (link.claim = $2 OR link.lease_until_ms <= $5)
         RETURNING 1 AS claimed`,
        [Buffer.from(hash), token, nowMs + leaseMs, expiresAtMs, nowMs],
        true,
      );
      return rows.length > 0;
    },
    async use({ hash, expiresAtMs }, nowMs) {
      await database.send(
        `INSERT INTO voidbox.approval_links AS link (hash, used_at_ms, expires_at_ms) VALUES ($1, $2, $3)
         ON CONFLICT (hash) DO UPDATE
           SET used_at_ms = coalesce(link.used_at_ms, $2), claim = NULL, lease_until_ms = NULL`,
        [Buffer.from(hash), nowMs, expiresAtMs],
        true,
      );
    },
    async release(hash, token) {
      await database.send(
        'DELETE FROM voidbox.approval_links WHERE hash = $1 AND claim = $2',
        [Buffer.from(hash), token],
        true,
      );
    },
    async isUsed(hash) {
      const rows = await database.send(
        'SELECT 1 AS used FROM voidbox.approval_links WHERE hash = $1 AND used_at_ms IS NOT NULL',
        [Buffer.from(hash)],
        true,
      );
      return rows.length > 0;
    },
    async sweep(nowMs) {
      await database.send('DELETE FROM voidbox.approval_links WHERE expires_at_ms <= $1', [nowMs], true);
    },
  };
}
