/** Rules that the checks of all expressions share. */
import type { ASTNode } from '@marcbachmann/cel-js';
import { type ExpressionProblem, nodesOf } from './language.ts';

export function judgeCondition(type: string): string | null {
  return type === 'bool' || type === 'dyn' ? null : `its value has the type ${type}, but a condition must be a bool`;
}

/** Types whose values have one obvious text. */
const TEXT_TYPES = /^(?:dyn|string|int|double|bool|list|map)\b/;

export function judgeText(type: string): string | null {
  return TEXT_TYPES.test(type)
    ? null
    : `its value has the type ${type}, but a string is needed: convert it with \`string(…)\``;
}

/** Finds bytes, because they use memory that the memory limit of an evaluation does not count. */
export function findBytes(ast: ASTNode): readonly ExpressionProblem[] {
  return [...nodesOf(ast)].flatMap((node) =>
    (node.op === 'call' && node.args[0] === 'bytes') || (node.op === 'value' && node.args instanceof Uint8Array)
      ? [{ message: 'bytes are not supported: compare strings', ...node.range }]
      : [],
  );
}
