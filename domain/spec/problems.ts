import type { Diagnostic } from '../errors/diagnostic.ts';
import type { SpecCode } from '../errors/spec-codes.ts';
import { didYouMean, nearest, nearestKey } from './suggest.ts';
import type { Position } from './tree.ts';

/** Most diagnostics that are told of one text. */
export const DIAGNOSTICS_LIMIT = 200;

/** Most of one severity that are kept to choose from, so that a hostile text cannot fill memory with them. */
const KEPT_LIMIT = 10 * DIAGNOSTICS_LIMIT;

/** Collects an author's mistakes, all of them, in the order of the text. */
export class Problems {
  readonly #file: string;
  /** Apart, so that no number of warnings can hide an error. */
  readonly #found = { error: new Map<string, Diagnostic>(), warning: new Map<string, Diagnostic>() };

  constructor(file: string) {
    this.#file = file;
  }

  error(code: SpecCode, at: Position, message: string, remedy: string): void {
    this.#add('error', code, at, message, remedy);
  }

  warning(code: SpecCode, at: Position, message: string, remedy: string): void {
    this.#add('warning', code, at, message, remedy);
  }

  /** `; did you mean "x"?`, or nothing; nothing too when so much is wrong that nobody would be told. */
  suggest(word: string, known: Iterable<string>): string {
    return this.#isFull() ? '' : didYouMean(nearest(word, known));
  }

  /** As `suggest`, of keys, where the word may be another system's for the same. */
  suggestKey(word: string, known: ReadonlySet<string>): string {
    return this.#isFull() ? '' : didYouMean(nearestKey(word, known));
  }

  #isFull(): boolean {
    return this.#found.error.size >= KEPT_LIMIT || this.#found.warning.size >= KEPT_LIMIT;
  }

  list(): readonly Diagnostic[] {
    return inOrder([...this.#found.error.values(), ...this.#found.warning.values()]);
  }

  #add(severity: Diagnostic['severity'], code: SpecCode, at: Position, message: string, remedy: string): void {
    const key = `${at.line}:${at.column}:${code}:${message}`;
    const found = this.#found[severity];
    if (found.has(key) || found.size >= KEPT_LIMIT) return;
    found.set(key, { code, severity, message, remedy, file: this.#file, line: at.line, column: at.column });
  }
}

/** As they are told: by position; where there are more than `DIAGNOSTICS_LIMIT`, warnings are left out first. */
export function inOrder(diagnostics: readonly Diagnostic[]): readonly Diagnostic[] {
  const kept =
    diagnostics.length <= DIAGNOSTICS_LIMIT
      ? [...diagnostics]
      : [...diagnostics].sort((a, b) => rank(a) - rank(b)).slice(0, DIAGNOSTICS_LIMIT);
  return kept.sort((a, b) => a.line - b.line || a.column - b.column);
}

function rank(diagnostic: Diagnostic): number {
  return diagnostic.severity === 'error' ? 0 : 1;
}
