/**
 * Parts of the pages that workflows show in the Temporal UI. The UI renders Markdown, and texts of guests and agents
 * are hostile.
 */
import { sanitizeLine } from '../domain/security/sanitize.ts';

/** The UI draws no lines and no space between cells; ordinary spaces at their ends are not rendered. */
const GAP = '\u00a0\u00a0\u00a0';

export function markdownTable(
  head: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): readonly string[] {
  const line = (cells: readonly (string | number)[]): string =>
    `| ${cells.map((cell) => `${cellOf(cell)}${GAP}`).join(' | ')} |`;
  return [line(head), `|${head.map(() => ':--').join('|')}|`, ...rows.map(line)];
}

/** Shows a text unchanged on one line, without effect as Markdown. */
export function code(text: string): string {
  return `\`${sanitizeLine(text).replaceAll('`', "'")}\``;
}

/** Shows a command with ids, or nothing: ids are any text, and the shown command has to work without quotes. */
export function commandLines(label: string, command: string, ...ids: readonly string[]): readonly string[] {
  return ids.every((id) => /^[\w.:@+=/][\w.:@+=/-]*$/.test(id))
    ? ['', `${label}: ${code([command, ...ids].join(' '))}`]
    : [];
}

function cellOf(cell: string | number): string {
  return String(cell).replaceAll('|', '\\|');
}
