/** The text of the audit log. */
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { AuditRow } from '../../../store/access.ts';
import type { Style } from '../text/style.ts';
import { renderTable } from '../text/table.ts';

export function renderAudit(
  rows: readonly AuditRow[],
  layout: { readonly style: Style; readonly width: number },
): readonly string[] {
  const { style } = layout;
  return renderTable(
    ['TIME', 'TOKEN', 'ADDRESS', 'CHANGE', 'RUN', 'OUTCOME'],
    rows.map(({ atMs, token, address, method, route, runId, status, code }) => [
      new Date(atMs).toISOString(),
      sanitizeLine(token ?? '-'),
      sanitizeLine(address ?? '-'),
      sanitizeLine(`${method} ${route.replace(/^\/api\/v1/, '')}`),
      sanitizeLine(runId ?? '-'),
      code === null ? String(status) : style.red(`${status} ${sanitizeLine(code)}`),
    ]),
    layout,
  );
}
