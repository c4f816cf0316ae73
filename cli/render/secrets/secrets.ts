/** Texts of secrets of deployments. */
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatAge, formatDurationMs } from '../../../domain/units/duration.ts';
import type { SecretRow } from '../../../store/triggers.ts';
import type { Style } from '../text/style.ts';
import { renderTable } from '../text/table.ts';

export function renderSecrets(
  secrets: readonly SecretRow[],
  { style, width, nowMs }: { readonly style: Style; readonly width: number; readonly nowMs: number },
): readonly string[] {
  const rows = secrets.map(({ name, deployment, keyId, changedAtMs, previousUntilMs }) => [
    sanitizeLine(name),
    deployment === null ? 'all' : sanitizeLine(deployment),
    formatAge(nowMs - changedAtMs),
    previousUntilMs === null ? '-' : `for ${formatDurationMs(Math.max(0, previousUntilMs - nowMs))}`,
    sanitizeLine(keyId),
  ]);
  return renderTable(['NAME', 'DEPLOYMENT', 'CHANGED', 'VALUE BEFORE', 'KEY'], rows, { style, width });
}

/** Such as `API_KEY for web, api`. */
export function describeSecrets(secrets: readonly SecretRow[]): string {
  const names = secrets.map(({ deployment }) => (deployment === null ? 'all deployments' : sanitizeLine(deployment)));
  return `${sanitizeLine(secrets[0]?.name ?? '')} for ${names.join(', ')}`;
}
