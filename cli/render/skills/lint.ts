import { sanitize, sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { LintDiagnostic } from '../../../skill-kit/lint/diagnostic.ts';
import type { Style } from '../text/style.ts';

/** Renders diagnostics as compilers do: the place if it is known, the rule, the problem, and the remedy. */
export function renderLint(diagnostics: readonly LintDiagnostic[], style: Style): string {
  const blocks = diagnostics.map(({ rule, severity, message, remedy, file, line, column }) => {
    const place = file === undefined ? '' : `${style.bold(`${sanitizeLine(file)}:${line}:${column}`)}: `;
    const kind = severity === 'error' ? style.red(severity) : style.yellow(severity);
    const help = remedy === undefined ? '' : `  ${style.cyan('help:')} ${sanitizeLine(remedy)}\n`;
    return `${place}${kind}[${rule}]: ${sanitize(message).trimEnd().replaceAll('\n', '\n  ')}\n${help}`;
  });
  return `${blocks.join('')}${summary(diagnostics, style)}\n`;
}

function summary(diagnostics: readonly LintDiagnostic[], style: Style): string {
  const errors = diagnostics.filter(({ severity }) => severity === 'error').length;
  const warnings = diagnostics.length - errors;
  const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`;
  const parts = [
    errors > 0 ? style.red(count(errors, 'error')) : '',
    warnings > 0 ? style.yellow(count(warnings, 'warning')) : '',
  ].filter((part) => part !== '');
  return parts.length === 0 ? style.green('no problems') : parts.join(', ');
}
