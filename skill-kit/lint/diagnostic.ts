/** The diagnostics of lint. */
import type { ListedRule, RuleName } from './rules.ts';

export interface LintDiagnostic {
  readonly rule: RuleName;
  readonly severity: 'error' | 'warning';
  /** Begins with `[subskill:<name>] ` if it is about a sub-skill. */
  readonly message: string;
  readonly remedy?: string;
  readonly step?: string;
  readonly file?: string;
  /** From 1. */
  readonly line?: number;
  /** From 1, in UTF-16 units. */
  readonly column?: number;
}

/** @param severity  for rules that can be either */
export function createDiagnostic(
  { code, severity: declared, remedy }: ListedRule,
  message: string,
  severity: LintDiagnostic['severity'] = declared === 'warning' ? 'warning' : 'error',
): LintDiagnostic {
  return { rule: code, severity, message, remedy };
}

/** One whose place in the source is known. */
export interface PlacedDiagnostic extends LintDiagnostic {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** Sorts by place, then by rule and text, and drops duplicates. */
export function sortDiagnostics(diagnostics: readonly PlacedDiagnostic[]): readonly PlacedDiagnostic[] {
  const text = ({ file, line, column, rule, message }: PlacedDiagnostic): string =>
    JSON.stringify([file, line, column, rule, message]);
  const unique = [...new Map(diagnostics.map((one) => [text(one), one])).values()];
  return unique.toSorted(
    (a, b) =>
      compare(a.file, b.file) ||
      a.line - b.line ||
      a.column - b.column ||
      compare(a.rule, b.rule) ||
      compare(a.message, b.message),
  );
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
