import type { Diagnostic } from '../../errors/diagnostic.ts';
import type { SpecCode } from '../../errors/spec-codes.ts';
import { suggestNearest, findNearest, findNearestKey, withoutSlip } from './suggest.ts';
import type { Position } from './tree.ts';

/** The most diagnostics that are reported for one text. */
export const DIAGNOSTICS_LIMIT = 200;

/** The most diagnostics of one severity that are kept, so that a hostile text cannot fill memory. */
const KEPT_LIMIT = 10 * DIAGNOSTICS_LIMIT;

/**
 * Facts that the text leaves open, because some of it could not be read or names something unknown. That mistake is
 * reported.
 */
export const GAPS = ['edges', 'order', 'outputs', 'params', 'result', 'secrets', 'trigger-secrets'] as const;
export type Gap = (typeof GAPS)[number];

/**
 * Conclusions from all values of a kind, with the facts that they need. With a gap in these facts, a conclusion would
 * repeat the mistake that made the gap, or be false.
 */
const CONCLUDED_FROM: Readonly<Partial<Record<SpecCode, readonly Gap[]>>> = {
  'spec/output-needed': ['edges', 'result'],
  'spec/box-unused': ['order'],
  'spec/part-unused': ['edges'],
  'spec/producer-after-consumer': ['order'],
  'spec/unknown-output': ['outputs'],
  'spec/missing-param': ['params'],
  'spec/unknown-param': ['params'],
  'spec/undeclared-param': ['params'],
  'spec/unordered-writers': ['edges', 'order'],
  'spec/undeclared-secret': ['secrets'],
  'spec/unused-secret': ['secrets'],
};

/** Conclusions about the spec as a whole. They come last, because their place says little. */
const OF_THE_WHOLE: ReadonlySet<SpecCode> = new Set([
  'spec/output-needed',
  'spec/box-unused',
  'spec/part-unused',
  'spec/unordered-writers',
]);

/** Collects all mistakes of an author, in the order of the text. */
export class Problems {
  readonly #file: string;
  readonly #gaps: Set<Gap>;
  #errors = 0;
  /** Separate, so that no number of warnings can hide an error. */
  readonly #found = { error: new Map<string, Diagnostic>(), warning: new Map<string, Diagnostic>() };

  /** @param gaps  the gaps that an earlier step found */
  constructor(file: string, gaps: readonly Gap[] = []) {
    this.#file = file;
    this.#gaps = new Set(gaps);
  }

  error(code: SpecCode, at: Position, message: string, remedy: string): void {
    this.#errors += 1;
    this.#add('error', code, at, message, remedy);
  }

  warning(code: SpecCode, at: Position, message: string, remedy: string): void {
    this.#add('warning', code, at, message, remedy);
  }

  /** Adds a gap. Call it only together with an error; otherwise the missing check could hide the only mistake. */
  gap(gap: Gap): void {
    this.#gaps.add(gap);
  }

  /** Returns the result of `work`, and adds a gap if it reported an error. */
  watch<T>(gap: Gap | undefined, work: () => T): T {
    const before = this.#errors;
    const result = work();
    if (gap !== undefined && this.#errors > before) this.gap(gap);
    return result;
  }

  errorCount(): number {
    return this.#errors;
  }

  gaps(): readonly Gap[] {
    return [...this.#gaps];
  }

  /** Returns `; did you mean "x"?`, or an empty text. It is also empty if the limit of diagnostics is reached. */
  suggest(word: string, known: Iterable<string>): string {
    return this.#isFull() ? '' : suggestNearest(findNearest(word, known));
  }

  /** Returns the known word that another most likely means; null also if the limit of diagnostics is reached. */
  nearest(word: string, known: Iterable<string>): string | null {
    return this.#isFull() ? null : findNearest(word, known);
  }

  /** Like `nearest`, but only for typos. */
  withoutSlip(word: string, known: Iterable<string>): string | null {
    return this.#isFull() ? null : withoutSlip(word, known);
  }

  /** Like `suggest`, but for keys: the word may be another system's name for one. */
  suggestKey(word: string, known: ReadonlySet<string>): string {
    return this.#isFull() ? '' : suggestNearest(findNearestKey(word, known));
  }

  #isFull(): boolean {
    return this.#found.error.size >= KEPT_LIMIT || this.#found.warning.size >= KEPT_LIMIT;
  }

  list(): readonly Diagnostic[] {
    const found = [...this.#found.error.values(), ...this.#found.warning.values()];
    return sortDiagnostics(found.filter(({ code }) => !CONCLUDED_FROM[code]?.some((gap) => this.#gaps.has(gap))));
  }

  #add(severity: Diagnostic['severity'], code: SpecCode, at: Position, message: string, remedy: string): void {
    const key = `${at.line}:${at.column}:${code}:${message}`;
    const found = this.#found[severity];
    if (found.has(key) || found.size >= KEPT_LIMIT) return;
    found.set(key, { code, severity, message, remedy, file: this.#file, line: at.line, column: at.column });
  }
}

/**
 * Sorts diagnostics in the order in which they are reported: causes before conclusions about the whole, then by
 * position. If there are more than `DIAGNOSTICS_LIMIT`, errors take precedence.
 */
export function sortDiagnostics(diagnostics: readonly Diagnostic[]): readonly Diagnostic[] {
  const kept =
    diagnostics.length <= DIAGNOSTICS_LIMIT
      ? [...diagnostics]
      : [...diagnostics].sort((a, b) => rank(a) - rank(b)).slice(0, DIAGNOSTICS_LIMIT);
  return kept.sort((a, b) => rankDiagnostic(a) - rankDiagnostic(b) || a.line - b.line || a.column - b.column);
}

/**
 * Sorts the diagnostics of several texts like `sortDiagnostics`, grouped by file in the order of their first
 * appearance.
 */
export function sortByFile(diagnostics: readonly Diagnostic[]): readonly Diagnostic[] {
  const files = [...new Set(diagnostics.map(({ file }) => file))];
  return [...sortDiagnostics(diagnostics)].sort((a, b) => files.indexOf(a.file) - files.indexOf(b.file));
}

function rankDiagnostic({ code }: Diagnostic): number {
  return OF_THE_WHOLE.has(code) ? 1 : 0;
}

function rank(diagnostic: Diagnostic): number {
  return diagnostic.severity === 'error' ? 0 : 1;
}
