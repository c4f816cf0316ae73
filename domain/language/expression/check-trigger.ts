/** Checks an expression of a trigger, which reads the payload and the headers of a delivery, and nothing of a run. */
import { findBytes, judgeCondition, judgeText } from './judgements.ts';
import { type ExpressionProblem, isProblem, parseExpression, triggerLanguage } from './language.ts';
import type { JudgeType } from './value-types.ts';

/** The functions that compiling triggers needs of the language. */
export interface CheckTriggerExpressions {
  /** Checks `when`. */
  readonly condition: (source: string) => readonly ExpressionProblem[];
  /** Checks an expression whose value becomes part of a text. */
  readonly text: (source: string) => readonly ExpressionProblem[];
}

export const checkTriggerExpressions: CheckTriggerExpressions = {
  condition: (source) => check(source, judgeCondition),
  text: (source) => check(source, judgeText),
};

function check(source: string, judge: JudgeType): readonly ExpressionProblem[] {
  const parsed = parseExpression(source, triggerLanguage);
  if (isProblem(parsed)) return [withRemedy(parsed)];
  const bytes = findBytes(parsed.ast);
  if (bytes.length > 0) return bytes;
  const typed = parsed.type();
  if ('message' in typed) return [withRemedy(typed)];
  const message = judge(typed.type);
  return message === null ? [] : [{ message, start: 0, end: source.length }];
}

const UNKNOWN = /^unknown variable: (\w+)/;
const READS = 'read `input`, which is the payload, or `headers["name"]` with the name in lower case';

/** Names of a run, and words of other systems for the payload. */
const REMEDIES: Readonly<Record<string, string>> = {
  stages: `a trigger decides before a run, which then has no stages: ${READS}`,
  params: `a trigger sets parameters and cannot read them: ${READS}`,
  secrets: `an expression cannot read secrets: ${READS}`,
  env: `an expression cannot read variables: ${READS}`,
  item: `a trigger has no items: ${READS}`,
  payload: 'write `input`',
  body: 'write `input`',
  event: 'write `input`',
  data: 'write `input`',
  request: 'write `input`, or `headers["name"]`',
  github: 'write `input`, which is the payload of the webhook',
  header: 'write `headers["name"]`, with the name in lower case',
};

/** Replaces a remedy that is for expressions of stages. */
function withRemedy(problem: ExpressionProblem): ExpressionProblem {
  const name = UNKNOWN.exec(problem.message)?.[1];
  if (name === undefined) return problem;
  return { ...problem, remedy: Object.hasOwn(REMEDIES, name) ? REMEDIES[name]! : READS };
}
