/** Reads the audit log in pages. */
import type { AccessStore, AuditQuery, AuditRow } from '../../store/access.ts';

export interface AuditPage {
  readonly rows: readonly AuditRow[];
  /** The `before` of the next page; null if no row follows. */
  readonly next: number | null;
}

export async function listAudit(query: AuditQuery, { audit }: AccessStore): Promise<AuditPage> {
  // One row more than the page tells whether a row follows.
  const found = await audit.list({ ...query, limit: query.limit + 1 });
  const rows = found.slice(0, query.limit);
  return { rows, next: found.length > rows.length ? rows.at(-1)!.id : null };
}
