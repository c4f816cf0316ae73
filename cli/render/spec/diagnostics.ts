import type { Diagnostic } from '../../../domain/errors/diagnostic.ts';
import type { ErrorCode } from '../../../domain/errors/codes.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { renderExcerpt } from '../text/excerpt.ts';
import type { Style } from '../text/style.ts';

/** A diagnostic, or a finding of this host about a place in the spec. */
export type Finding = Omit<Diagnostic, 'code'> & { readonly code: Diagnostic['code'] | ErrorCode };

/** The most columns of a source line, because a spec may be one line of a MiB. */
const MAX_SOURCE_COLUMNS = 100;
/** The fewest columns that have room for an excerpt. */
const MIN_SOURCE_COLUMNS = 40;

/** The number of further places in the block of a diagnostic. */
const MORE_PLACES = 8;

/**
 * Renders diagnostics as compilers do: the place, the problem, the line with a caret below the column, and the remedy.
 * The same diagnostic at several places has one block with all places, and the same help is shown once. `sources` are
 * the texts of files, by the names that diagnostics have for them; a file without a text has no excerpt.
 */
export function renderDiagnostics(
  diagnostics: readonly Finding[],
  sources: ReadonlyMap<string, string>,
  options: { readonly style: Style; readonly width: number },
): string {
  const lines = new Map([...sources].map(([file, text]) => [file, text.split(/\r?\n/)]));
  const wanted = Number.isFinite(options.width) ? options.width : MAX_SOURCE_COLUMNS;
  const limited = { ...options, width: Math.max(MIN_SOURCE_COLUMNS, wanted) };
  const helped = new Set<string>();
  const blocks = groupsOf(diagnostics).map(([diagnostic, ...more]) => {
    const help = helped.has(diagnostic.remedy) ? '' : diagnostic.remedy;
    helped.add(diagnostic.remedy);
    return renderDiagnostic(diagnostic, lines.get(diagnostic.file)?.[diagnostic.line - 1], { ...limited, help, more });
  });
  return [...blocks, summarise(diagnostics, options.style)].join('\n');
}

/** Groups diagnostics that differ only in their place, in the order of the first of each group. */
function groupsOf(diagnostics: readonly Finding[]): readonly (readonly [Finding, ...Finding[]])[] {
  const groups = new Map<string, [Finding, ...Finding[]]>();
  for (const diagnostic of diagnostics) {
    const { severity, code, message, remedy } = diagnostic;
    const key = JSON.stringify([severity, code, message, remedy]);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [diagnostic]);
    else group.push(diagnostic);
  }
  return [...groups.values()];
}

interface BlockOptions {
  readonly style: Style;
  readonly width: number;
  /** Empty if the diagnostic has no help, or if an earlier block shows it. */
  readonly help: string;
  /** The same diagnostic at further places. */
  readonly more: readonly Finding[];
}

function renderDiagnostic(
  diagnostic: Finding,
  sourceLine: string | undefined,
  { style, width, help, more }: BlockOptions,
): string {
  const place = `${sanitizeLine(diagnostic.file)}:${diagnostic.line}:${diagnostic.column}`;
  const severity = diagnostic.severity === 'error' ? style.red('error') : style.yellow('warning');
  const block = [`${style.bold(place)}: ${severity}[${diagnostic.code}]: ${sanitizeLine(diagnostic.message)}`];
  if (sourceLine !== undefined && sourceLine.trim() !== '') {
    const gutter = `${diagnostic.line} │ `;
    const { text, indent } = renderExcerpt(sourceLine, diagnostic.column, width - 2 - gutter.length);
    block.push(
      `  ${style.dim(gutter)}${text}`,
      `  ${style.dim(`${' '.repeat(gutter.length - 2)}│ `)}${' '.repeat(indent)}${style.red('^')}`,
    );
  }
  if (more.length > 0) block.push(`  and ${more.length} more of this kind at ${placesOf(more, diagnostic.file)}`);
  if (help !== '') block.push(`  ${style.cyan('help:')} ${remedyLines(help)}`);
  return `${block.join('\n')}\n`;
}

/** @param file  whose places need no name of a file */
function placesOf(diagnostics: readonly Finding[], file: string): string {
  const places = diagnostics.slice(0, MORE_PLACES).map((each) => {
    const place = `${each.line}:${each.column}`;
    return each.file === file ? place : `${sanitizeLine(each.file)}:${place}`;
  });
  return `${places.join(', ')}${diagnostics.length > MORE_PLACES ? ', …' : ''}`;
}

/** Renders a remedy; each of several commands or choices has a line. */
function remedyLines(remedy: string): string {
  return remedy.split('\n').map(sanitizeLine).join('\n        ');
}

function summarise(diagnostics: readonly Finding[], style: Style): string {
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
