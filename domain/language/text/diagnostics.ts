import type { Diagnostic } from '../../errors/diagnostic.ts';
import type { SpecCode } from '../../errors/spec-codes.ts';
import { didYouMean, nearest, nearestKey, withoutSlip } from './suggest.ts';
import type { Position } from './tree.ts';

/** Most diagnostics that are told of one text. */
export const DIAGNOSTICS_LIMIT = 200;

/** Most of one severity that are kept to choose from, so that a hostile text cannot fill memory with them. */
const KEPT_LIMIT = 10 * DIAGNOSTICS_LIMIT;

/** What the text leaves open: a part of it could not be read, or names nothing, and its author will be told so. */
export const GAPS = ['edges', 'order', 'outputs', 'params', 'result', 'secrets'] as const;
export type Gap = (typeof GAPS)[number];

/**
 * What is concluded from all values together, by what it takes of them. With a gap there, it says no more than
 * the mistake that made the gap, or something false.
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

/** Conclusions about the spec as a whole. Their place says little, so they are told last. */
const OF_THE_WHOLE: ReadonlySet<SpecCode> = new Set([
  'spec/output-needed',
  'spec/box-unused',
  'spec/part-unused',
  'spec/unordered-writers',
]);

/** Collects an author's mistakes, all of them, in the order of the text. */
export class Problems {
  readonly #file: string;
  readonly #gaps: Set<Gap>;
  #errors = 0;
  /** Apart, so that no number of warnings can hide an error. */
  readonly #found = { error: new Map<string, Diagnostic>(), warning: new Map<string, Diagnostic>() };

  /** @param gaps  those that an earlier step found */
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

  /** Only beside an error: what is left out for it must not be all that is wrong. */
  gap(gap: Gap): void {
    this.#gaps.add(gap);
  }

  /** The result of `work`, with a gap if anything in it was an error. */
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

  /** `; did you mean "x"?`, or nothing; nothing too when so much is wrong that nobody would be told. */
  suggest(word: string, known: Iterable<string>): string {
    return this.#isFull() ? '' : didYouMean(nearest(word, known));
  }

  /** The known word that another most likely means; null too when so much is wrong that nobody would be told. */
  nearest(word: string, known: Iterable<string>): string | null {
    return this.#isFull() ? null : nearest(word, known);
  }

  /** As `nearest`, for typing slips alone. */
  withoutSlip(word: string, known: Iterable<string>): string | null {
    return this.#isFull() ? null : withoutSlip(word, known);
  }

  /** As `suggest`, of keys, where the word may be another system's for the same. */
  suggestKey(word: string, known: ReadonlySet<string>): string {
    return this.#isFull() ? '' : didYouMean(nearestKey(word, known));
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

/** As they are told: causes before what is concluded of the whole, each by position. Of more than `DIAGNOSTICS_LIMIT`, errors stay. */
export function sortDiagnostics(diagnostics: readonly Diagnostic[]): readonly Diagnostic[] {
  const kept =
    diagnostics.length <= DIAGNOSTICS_LIMIT
      ? [...diagnostics]
      : [...diagnostics].sort((a, b) => rank(a) - rank(b)).slice(0, DIAGNOSTICS_LIMIT);
  return kept.sort((a, b) => rankDiagnostic(a) - rankDiagnostic(b) || a.line - b.line || a.column - b.column);
}

/** As `sortDiagnostics`, of several texts: file after file, as they first appear. */
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
