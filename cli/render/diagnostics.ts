import type { Diagnostic } from '../../domain/errors/diagnostic.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { Style } from './style.ts';
import { displayWidth, truncate } from './width.ts';

/** Of a source line; a spec may be one line of a MiB. */
const MAX_SOURCE_COLUMNS = 100;

/**
 * Diagnostics in the form of compilers: place, what is wrong, the line with a caret below the column, what to do.
 * `source` is the spec's text, or null where it is not at hand.
 */
export function renderDiagnostics(
  diagnostics: readonly Diagnostic[],
  source: string | null,
  options: { readonly style: Style; readonly width: number },
): string {
  const lines = source === null ? [] : source.split(/\r?\n/);
  const limited = { ...options, width: Number.isFinite(options.width) ? options.width : MAX_SOURCE_COLUMNS };
  const blocks = diagnostics.map((diagnostic) => renderDiagnostic(diagnostic, lines[diagnostic.line - 1], limited));
  return [...blocks, summarise(diagnostics, options.style)].join('\n');
}

function renderDiagnostic(
  diagnostic: Diagnostic,
  sourceLine: string | undefined,
  { style, width }: { readonly style: Style; readonly width: number },
): string {
  const place = `${sanitizeLine(diagnostic.file)}:${diagnostic.line}:${diagnostic.column}`;
  const severity = diagnostic.severity === 'error' ? style.red('error') : style.yellow('warning');
  const block = [`${style.bold(place)}: ${severity}[${diagnostic.code}]: ${sanitizeLine(diagnostic.message)}`];
  if (sourceLine !== undefined && sourceLine.trim() !== '') {
    const gutter = `${diagnostic.line} │ `;
    const shown = sanitizeLine(sourceLine);
    const before = sanitizeLine(sourceLine.slice(0, diagnostic.column - 1).replace(/\t/g, ' '));
    block.push(truncate(`  ${style.dim(gutter)}${shown}`, width));
    if (displayWidth(before) + gutter.length + 3 <= width)
      block.push(
        `  ${style.dim(`${' '.repeat(gutter.length - 2)}│ `)}${' '.repeat(displayWidth(before))}${style.red('^')}`,
      );
  }
  if (diagnostic.remedy !== '') block.push(`  ${style.cyan('help:')} ${sanitizeLine(diagnostic.remedy)}`);
  return `${block.join('\n')}\n`;
}

function summarise(diagnostics: readonly Diagnostic[], style: Style): string {
  const errors = diagnostics.filter((diagnostic) => diagnostic.severity === 'error').length;
  const warnings = diagnostics.length - errors;
  const parts = [];
  if (errors > 0) parts.push(style.red(count(errors, 'error')));
  if (warnings > 0) parts.push(style.yellow(count(warnings, 'warning')));
  return `${parts.join(', ')}\n`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
