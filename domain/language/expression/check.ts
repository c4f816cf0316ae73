/** Checks an expression before a run: its type, the stages and parameters that it reads, and its mistakes. */
import type { ASTNode } from '@marcbachmann/cel-js';
import { type ExpressionProblem, isProblem, languageOf, nodesOf, parseExpression } from './language.ts';
import { findBytes, judgeCondition, judgeText } from './judgements.ts';
import { checkTriggerExpressions, type CheckTriggerExpressions } from './check-trigger.ts';
import { suggestBrackets } from './remedies.ts';
import { suggestNearest, findNearest } from '../text/suggest.ts';
import { type JudgeType, type TypedValues, findTypeMistake } from './value-types.ts';
import { quote } from '../../units/quote.ts';

/** The fields of a stage that an expression may read. */
export const STAGE_FIELDS = ['output', 'json', 'state', 'exit_code'] as const;
export type StageField = (typeof STAGE_FIELDS)[number];

export interface StageReference {
  readonly stage: string;
  readonly field: StageField;
  readonly start: number;
  /** The offset after the name, before the field. */
  readonly nameEnd: number;
  readonly end: number;
}

export interface ParamReference {
  readonly name: string;
  readonly start: number;
  readonly end: number;
}

/** Each reference, in the order of the tree. The caller checks whether the stages and parameters exist. */
export interface CheckedExpression {
  readonly stages: readonly StageReference[];
  readonly params: readonly ParamReference[];
}

/** The functions that compiling a spec needs of the language. */
export interface CheckExpressions {
  readonly condition: typeof checkCondition;
  readonly text: typeof checkText;
  readonly trigger: CheckTriggerExpressions;
}

/**
 * Checks an expression whose value decides a condition.
 * @param values  of the parameters: the types of parameters and stages must also fit
 */
export function checkCondition(
  source: string,
  values?: TypedValues,
): CheckedExpression | { readonly problems: readonly ExpressionProblem[] } {
  return checkTyped(source, judgeCondition, values);
}

function checkTyped(
  source: string,
  judge: JudgeType,
  values: TypedValues | undefined,
  ofItem = false,
): CheckedExpression | { readonly problems: readonly ExpressionProblem[] } {
  const checked = checkExpression(source, ofItem);
  if ('problems' in checked) return checked;
  const message = judge(checked.type);
  if (message !== null) return { problems: [{ message, start: 0, end: source.length }] };
  if (values === undefined) return checked;
  const names = checked.params.map(({ name }) => name);
  const mistake = findTypeMistake(source, names, values, judge, ofItem);
  const problems = mistake === null ? impossibleValues(source, values) : [mistake];
  return problems.length > 0 ? { problems } : checked;
}

export const checkExpressions: CheckExpressions = {
  condition: checkCondition,
  text: checkText,
  trigger: checkTriggerExpressions,
};

/**
 * Checks an expression whose value becomes part of a text.
 * @param values  as for a condition
 * @param ofItem  the text belongs to a stage with items, and may read the item
 */
export function checkText(
  source: string,
  values?: TypedValues,
  ofItem = false,
): CheckedExpression | { readonly problems: readonly ExpressionProblem[] } {
  const checked = checkTyped(source, judgeText, values, ofItem);
  if ('problems' in checked) return checked;
  const problems = checked.stages.flatMap(({ field, start, end }): readonly ExpressionProblem[] =>
    field === 'output' || field === 'json'
      ? []
      : [
          {
            message: `an expression in a text can read only \`.output\` and \`.json\` of a stage; only \`when\` can read \`.${field}\``,
            start,
            end,
          },
        ],
  );
  return problems.length > 0 ? { problems } : checked;
}

/** The values that an expression can read as `stages.NAME.state`. */
const STATES = ['succeeded', 'passed', 'failed', 'skipped', 'cancelled'];

/** Finds comparisons with a state that no stage ever has, or with a text that is not among a parameter's choices. */
function impossibleValues(source: string, values: TypedValues): readonly ExpressionProblem[] {
  const parsed = parseExpression(source);
  if (isProblem(parsed)) return [];
  return [...nodesOf(parsed.ast)].flatMap((node): readonly ExpressionProblem[] => {
    if (node.op !== '==' && node.op !== '!=' && node.op !== 'in') return [];
    const [left, right] = node.args;
    const known = findPossibleValues(left, values);
    if (node.op === 'in')
      return known === null || right.op !== 'list' ? [] : right.args.flatMap((item) => findUnlessAllowed(item, known));
    const other = known === null ? findPossibleValues(right, values) : null;
    return known !== null ? findUnlessAllowed(right, known) : other !== null ? findUnlessAllowed(left, other) : [];
  });
}

interface PossibleValues {
  readonly whose: string;
  readonly words: readonly string[];
}

/** Returns null if the node can have any value. */
function findPossibleValues(node: ASTNode, values: TypedValues): PossibleValues | null {
  if (isState(node)) return { whose: "a stage's state", words: STATES };
  const param = selectionOf(node);
  const words = param !== null && isVariable(param.of, 'params') ? values.get(param.name)?.choices : undefined;
  return words === undefined ? null : { whose: `the parameter ${quote(param!.name)}`, words };
}

function findUnlessAllowed(node: ASTNode, { whose, words }: PossibleValues): readonly ExpressionProblem[] {
  if (node.op !== 'value' || typeof node.args !== 'string' || words.includes(node.args)) return [];
  return [
    {
      message: `${whose} is never ${quote(node.args)}${suggestNearest(findNearest(node.args, words))}`,
      remedy: `write one of: ${words.join(', ')}`,
      ...node.range,
    },
  ];
}

function isState(node: ASTNode): boolean {
  const field = selectionOf(node);
  const stage = field?.name === 'state' ? selectionOf(field.of) : null;
  return stage !== null && isVariable(stage.of, 'stages');
}

export function checkExpression(
  source: string,
  ofItem = false,
): (CheckedExpression & { readonly type: string }) | { readonly problems: readonly ExpressionProblem[] } {
  const parsed = parseExpression(source, languageOf(ofItem));
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
          message: `a stage has no ${quote(field.name)}; it has ${STAGE_FIELDS.join(', ')}`,
          ...describeBrackets(source, start),
          start,
          end,
        });
      else stages.push({ stage: inner.name, field: field.name, start, nameEnd: field.of.range.end, end });
    } else if (isVariable(field.of, 'params')) {
      seen.add(field.of);
      params.push({ name: field.name, ...node.range });
    }
  }
  problems.push(...findBytes(parsed.ast));
  // The run machine must know the names that an expression reads, so a computed name or a whole mapping is a mistake.
  for (const node of nodesOf(parsed.ast)) {
    const whole = selectionOf(node);
    if (whole !== null && isVariable(whole.of, 'stages') && !seen.has(node)) {
      seen.add(whole.of);
      const fields = STAGE_FIELDS.map((name) => `\`.${name}\``).join(', ');
      problems.push({
        message: `the stage ${quote(whole.name)} needs a field: ${fields}`,
        ...describeBrackets(source, node.range.start),
        ...node.range,
      });
    } else if ((isVariable(node, 'stages') || isVariable(node, 'params')) && !seen.has(node))
      problems.push({
        message: `write \`${node.args as string}.NAME\`: the expression must contain the name itself`,
        ...node.range,
      });
  }
  if (problems.length > 0) return { problems };
  const typed = parsed.type();
  return 'message' in typed ? { problems: [typed] } : { ...typed, stages, params };
}

/** The remedy if the name at this place needs brackets. */
function describeBrackets(source: string, start: number): { readonly remedy?: string } {
  // A later name in the expression has its own problem.
  const remedy = suggestBrackets(/^[\w.?-]*/.exec(source.slice(start))![0]);
  return remedy === null ? {} : { remedy };
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
