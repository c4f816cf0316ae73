import { displayWidth, padEnd, truncate } from './width.ts';
import type { Style } from './style.ts';

/** Rows under a heading, columns two blanks apart; lines longer than `width` are cut. Cells must be sanitised. */
export function renderTable(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  options: { readonly style: Style; readonly width: number },
): string[] {
  const widths = heading.map((title, column) =>
    Math.max(displayWidth(title), ...rows.map((row) => displayWidth(row[column] ?? ''))),
  );
  const line = (cells: readonly string[]): string => {
    const padded = cells.map((cell, column) =>
      column === cells.length - 1 ? cell : padEnd(cell, widths[column] ?? 0),
    );
    return truncate(padded.join('  ').trimEnd(), options.width);
  };
  return [options.style.dim(line(heading)), ...rows.map(line)];
}
