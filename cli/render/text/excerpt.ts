import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { displayWidth, truncate, truncateStart } from './width.ts';

/** Characters of a line that are looked at on either side of the place: a line may be a MiB long. */
const LOOKED_AT = 2_000;
/** Columns before the place that stay in sight when both ends of the line are cut. */
const LEAST_BEFORE = 12;

/**
 * Returns as much of a source line as fits around a column, and the indent of the column in that text.
 * @param column  from 1, in UTF-16 units
 */
export function renderExcerpt(
  line: string,
  column: number,
  width: number,
): { readonly text: string; readonly indent: number } {
  const at = Math.min(column - 1, line.length);
  const from = Math.max(0, at - LOOKED_AT);
  const isCutBefore = from > 0;
  const before = `${isCutBefore ? '…' : ''}${toOneLine(line.slice(from, at))}`;
  const after = toOneLine(line.slice(at, at + LOOKED_AT));
  const needed = displayWidth(before) + displayWidth(after);
  if (needed <= width) return { text: before + after, indent: displayWidth(before) };
  // The text after the column gets its room first, because it tells the reader more than the text before it.
  const room = Math.max(LEAST_BEFORE, width - Math.max(1, Math.min(displayWidth(after), Math.ceil(width / 2))));
  const shown = truncateStart(before, Math.min(room, width - 1));
  const indent = displayWidth(shown);
  return { text: shown + truncate(after, width - indent), indent };
}

function toOneLine(text: string): string {
  return sanitizeLine(text.replace(/\t/g, ' '));
}
