/** Texts of tokens: their list, and one of them. */
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatAge, formatDurationMs } from '../../../domain/units/duration.ts';
import type { TokenRow } from '../../../store/access.ts';
import type { Style } from '../text/style.ts';
import { renderTable } from '../text/table.ts';

export function renderTokens(
  tokens: readonly TokenRow[],
  { style, width, nowMs }: { readonly style: Style; readonly width: number; readonly nowMs: number },
): readonly string[] {
  const rows = tokens.map((token) => [
    sanitizeLine(token.name),
    token.scopes.join(','),
    describeRuns(token),
    describeEnd(token, nowMs, style),
    token.lastUsedAtMs === null ? 'never' : formatAge(nowMs - token.lastUsedAtMs),
  ]);
  return renderTable(['NAME', 'SCOPES', 'RUNS', 'EXPIRES', 'LAST USED'], rows, { style, width });
}

export function renderToken(token: TokenRow, nowMs: number): readonly string[] {
  const { name, scopes, groups, allowGit, expiresAtMs } = token;
  const facts: readonly (readonly [string, string])[] = [
    ['token', sanitizeLine(name)],
    ['scopes', scopes.join(', ')],
    ['runs', describeRuns(token)],
    ...(groups.length === 0 ? [] : ([['groups', sanitizeLine(groups.join(', '))]] as const)),
    ...(allowGit.length === 0 ? [] : ([['may fetch', sanitizeLine(allowGit.join(', '))]] as const)),
    [
      'expires',
      expiresAtMs === null
        ? 'never'
        : `${new Date(expiresAtMs).toISOString()} (in ${formatDurationMs(expiresAtMs - nowMs)})`,
    ],
  ];
  return facts.map(([name, value]) => `${name.padEnd('may fetch'.length)}  ${value}`);
}

function describeRuns({ runs }: TokenRow): string {
  return runs.length === 0 ? 'every run' : sanitizeLine(runs.join(' '));
}

function describeEnd({ revokedAtMs, expiresAtMs }: TokenRow, nowMs: number, style: Style): string {
  if (revokedAtMs !== null) return style.red('revoked');
  if (expiresAtMs === null) return 'never';
  if (expiresAtMs <= nowMs) return style.red('expired');
  return `in ${formatDurationMs(expiresAtMs - nowMs)}`;
}
