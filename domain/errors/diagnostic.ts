import type { SpecCode } from './spec-codes.ts';

/** An author's mistake, with the place it was made. All of a spec's diagnostics are reported at once. */
export interface Diagnostic {
  readonly code: SpecCode;
  readonly severity: 'error' | 'warning';
  /** The mistake, with the value. */
  readonly message: string;
  /** The remedy. */
  readonly remedy: string;
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** From 1. */
  readonly column: number;
}
