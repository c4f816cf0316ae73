import { AUDIT_ROWS, AUDIT_STEP, type AuditLog, type AuditRow } from '../access.ts';
import type { Database } from './database.ts';
import { cutStoredText, fromStoredText, toStoredText } from './stored-text.ts';

/** The bounds of texts in the table. */
const MOST_BYTES = 8_192;
const TOKEN_BYTES = 1_024;

interface StoredEntry {
  readonly id: string;
  readonly at_ms: string;
  readonly token: string | null;
  readonly address: string | null;
  readonly method: string;
  readonly route: string;
  readonly run_id: string | null;
  readonly status: number;
  readonly code: string | null;
}

/** @param mostRows  the latest rows that stay; another value is for tests */
export function createPostgresAudit(database: Database, mostRows: number = AUDIT_ROWS): AuditLog {
  return {
    async add({ atMs, token, address, method, route, runId, status, code }) {
      const name = token === null ? null : cutStoredText(token, TOKEN_BYTES);
      const texts = [address, method, route, runId, code].map((text) =>
        text === null ? null : cutStoredText(text, MOST_BYTES),
      );
      const [added] = await database.send(
        `INSERT INTO voidbox.audit (token, address, method, route, run_id, code, at_ms, status)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id`,
        [name, ...texts, atMs, status],
        // A second row would record a change that did not happen.
        false,
      );
      const { id } = added as Pick<StoredEntry, 'id'>;
      if (Number(id) % AUDIT_STEP === 0)
        await database.send('DELETE FROM voidbox.audit WHERE id <= $1', [Number(id) - mostRows], true);
    },
    async list({ limit, before, token, runId }) {
      const rows = await database.send(
        `SELECT id, at_ms, token, address, method, route, run_id, status, code FROM voidbox.audit
          WHERE ($2::bigint IS NULL OR id < $2) AND ($3::text IS NULL OR token = $3)
            AND ($4::text IS NULL OR (md5(run_id) = md5($4) AND run_id = $4))
          ORDER BY id DESC LIMIT $1`,
        [
          limit,
          before ?? null,
          token === undefined ? null : toStoredText(token),
          runId === undefined ? null : toStoredText(runId),
        ],
        true,
      );
      return rows.map((row) => readEntry(row as StoredEntry));
    },
  };
}

function readEntry(row: StoredEntry): AuditRow {
  return {
    id: Number(row.id),
    atMs: Number(row.at_ms),
    token: readText(row.token),
    address: readText(row.address),
    method: fromStoredText(row.method),
    route: fromStoredText(row.route),
    runId: readText(row.run_id),
    status: row.status,
    code: readText(row.code),
  };
}

function readText(stored: string | null): string | null {
  return stored === null ? null : fromStoredText(stored);
}
