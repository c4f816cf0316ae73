/** What can be said of an expression before anything runs: its type, the stages and parameters that it reads, and its mistakes. */
import type { ASTNode } from '@marcbachmann/cel-js';
import { type ExpressionProblem, isProblem, nodesOf, parseExpression } from './language.ts';

/** What an expression may read of a stage. */
export const STAGE_FIELDS = ['output', 'json', 'state', 'exit_code'] as const;
export type StageField = (typeof STAGE_FIELDS)[number];

export interface StageReference {
  readonly stage: string;
  readonly field: StageField;
  readonly start: number;
  /** Behind the name, before the field. */
  readonly nameEnd: number;
  readonly end: number;
}

export interface ParamReference {
  readonly name: string;
  readonly start: number;
  readonly end: number;
}

/** Each place that reads something, in the order of the tree. Whether there is such a stage or parameter is the caller's to say. */
export interface CheckedExpression {
  readonly stages: readonly StageReference[];
  readonly params: readonly ParamReference[];
}

/** What compiling a spec needs of the language. */
export interface CheckExpressions {
  readonly condition: typeof checkCondition;
  readonly text: typeof checkText;
}

/** An expression whose value decides something. */
export function checkCondition(
  source: string,
): CheckedExpression | { readonly problems: readonly ExpressionProblem[] } {
  const checked = checkExpression(source);
  if ('problems' in checked || checked.type === 'bool' || checked.type === 'dyn') return checked;
  const message = `its value is of the type ${checked.type}; a condition is true or false`;
  return { problems: [{ message, start: 0, end: source.length }] };
}

export const checkExpressions: CheckExpressions = { condition: checkCondition, text: checkText };

/** Types of values that have one text which everybody expects. */
const TEXT_TYPES = /^(?:dyn|string|int|double|bool|list|map)\b/;

/** An expression whose value stands in a text. */
export function checkText(source: string): CheckedExpression | { readonly problems: readonly ExpressionProblem[] } {
  const checked = checkExpression(source);
  if ('problems' in checked) return checked;
  const problems = checked.stages.flatMap(({ field, start, end }): readonly ExpressionProblem[] =>
    field === 'output' || field === 'json'
      ? []
      : [{ message: `a text reads \`.output\` or \`.json\` of a stage; \`.${field}\` is for \`when\``, start, end }],
  );
  if (problems.length > 0) return { problems };
  if (TEXT_TYPES.test(checked.type)) return checked;
  const message = `its value is of the type ${checked.type}, which is not a text: convert it with \`string(…)\``;
  return { problems: [{ message, start: 0, end: source.length }] };
}

export function checkExpression(
  source: string,
): (CheckedExpression & { readonly type: string }) | { readonly problems: readonly ExpressionProblem[] } {
  const parsed = parseExpression(source);
  if (isProblem(parsed)) return { problems: [parsed] };
  const problems: ExpressionProblem[] = [];
  const stages: StageReference[] = [];
  const params: ParamReference[] = [];
  const seen = new Set<ASTNode>();
  for (const node of nodesOf(parsed.ast)) {
    const field = selectionOf(node);
    if (field === null) continue;
    const inner = selectionOf(field.of);
    if (inner !== null && isVariable(inner.of, 'stages')) {
      seen.add(inner.of);
      seen.add(field.of);
      const { start, end } = node.range;
      if (!isStageField(field.name))
        problems.push({
          message: `a stage has no ${quoted(field.name)}; it has ${STAGE_FIELDS.join(', ')}`,
          start,
          end,
        });
      else stages.push({ stage: inner.name, field: field.name, start, nameEnd: field.of.range.end, end });
    } else if (isVariable(field.of, 'params')) {
      seen.add(field.of);
      params.push({ name: field.name, ...node.range });
    }
  }
  // Bytes lie outside of the memory that an evaluation may take.
  for (const node of nodesOf(parsed.ast))
    if ((node.op === 'call' && node.args[0] === 'bytes') || (node.op === 'value' && node.args instanceof Uint8Array))
      problems.push({ message: 'bytes are not supported: compare strings', ...node.range });
  // What is read by a computed name, or all at once, cannot be said beforehand, and the run machine has to know it.
  for (const node of nodesOf(parsed.ast)) {
    const whole = selectionOf(node);
    if (whole !== null && isVariable(whole.of, 'stages') && !seen.has(node)) {
      seen.add(whole.of);
      const fields = STAGE_FIELDS.map((name) => `\`.${name}\``).join(', ');
      problems.push({ message: `say what of the stage ${quoted(whole.name)}: ${fields}`, ...node.range });
    } else if ((isVariable(node, 'stages') || isVariable(node, 'params')) && !seen.has(node))
      problems.push({
        message: `write \`${node.args as string}.NAME\`: the name must stand in the expression`,
        ...node.range,
      });
  }
  if (problems.length > 0) return { problems };
  const typed = parsed.type();
  return 'message' in typed ? { problems: [typed] } : { ...typed, stages, params };
}

/** `of.name`, `of.?name`, `of["name"]`, `of[?"name"]`. */
function selectionOf(node: ASTNode): { readonly of: ASTNode; readonly name: string } | null {
  if (node.op === '.' || node.op === '.?') return { of: node.args[0], name: node.args[1] };
  if (node.op !== '[]' && node.op !== '[?]') return null;
  const [of, key] = node.args;
  return key.op === 'value' && typeof key.args === 'string' ? { of, name: key.args } : null;
}

function isVariable(node: ASTNode, name: 'stages' | 'params'): boolean {
  return node.op === 'id' && node.args === name;
}

function isStageField(name: string): name is StageField {
  return (STAGE_FIELDS as readonly string[]).includes(name);
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 79)}…` : text);
}
