/**
 * Limits of an expression, for parsing and for evaluation. This file imports no library, so that every module can use
 * it.
 */
export const EXPRESSION_LIMITS = {
  /** UTF-16 code units of the source. */
  characters: 4_096,
  /** Operators, names and values. */
  nodes: 1_000,
  depth: 50,
  listElements: 1_000,
  arguments: 32,
  /** Bytes of all outputs and parameters that it reads. */
  inputBytes: 1024 * 1024,
  /** Characters of a whole number that an expression computes with. */
  digits: 1_000,
  evaluationMs: 100,
  memoryMib: 64,
  /** UTF-8 bytes of one value within a text. */
  valueBytes: 32 * 1024,
  /**
   * UTF-8 bytes of all texts of a stage with expressions: the guest gets a command's arguments and variables in one
   * request.
   */
  textsBytes: 128 * 1024,
} as const;
