/** The lines that a program on KVM writes about its rows: one JSON line for each fact, over a serial port or a pipe. */

export type RowLine =
  | { readonly kind: 'started'; readonly row: string }
  | { readonly kind: 'passed'; readonly row: string; readonly tookMs: number }
  | { readonly kind: 'failed'; readonly row: string; readonly tookMs: number; readonly error: string }
  /** The last line. A program that crashed ends without having reported each row. */
  | { readonly kind: 'exit'; readonly code: number };

/** The error of a row is cut, so that a line is never longer. */
const MAX_ERROR_CHARACTERS = 8_000;
const MAX_LINE_CHARACTERS = 64 * 1024;

export function writeRowLine(line: RowLine): string {
  const cut = line.kind === 'failed' ? { ...line, error: line.error.slice(0, MAX_ERROR_CHARACTERS) } : line;
  return `${JSON.stringify(cut)}\n`;
}

/** @throws Error for anything but a line of `writeRowLine` */
export function parseRowLine(text: string): RowLine {
  const refuse = (why: string): Error => new Error(`${why}: ${JSON.stringify(text.slice(0, 200))}`);
  if (text.length > MAX_LINE_CHARACTERS) throw refuse('a line of a row is too long');
  let line: unknown;
  try {
    line = JSON.parse(text);
  } catch {
    throw refuse('a line of a row is no JSON');
  }
  if (!isRowLine(line)) throw refuse('a line of a row has another shape');
  return line;
}

function isRowLine(value: unknown): value is RowLine {
  if (typeof value !== 'object' || value === null) return false;
  const { kind, row, tookMs, error, code } = value as Record<string, unknown>;
  if (kind === 'exit') return typeof code === 'number';
  if (typeof row !== 'string') return false;
  if (kind === 'started') return true;
  if (typeof tookMs !== 'number') return false;
  return kind === 'passed' || (kind === 'failed' && typeof error === 'string');
}
