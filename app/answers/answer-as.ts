/** Answers a question of a run for a caller of the API. A token answers under its own name. */
import type { AnswerReceipt, Decision } from '../../workflows/run/answer-request.ts';
import type { FieldValues } from '../../domain/run/approval-answer.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { shorten } from '../../domain/units/quote.ts';
import { openQuestionsOf } from '../../store/open-questions.ts';
import type { Caller } from '../access/authenticate.ts';
import { AppError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { readRepairedViews } from '../runs/repair-runs.ts';
import { answerRun } from './answer-run.ts';
import { createAnswerRefusal } from './recorded-answers.ts';

export interface CallersAnswer {
  readonly decision: Decision;
  /** The stage that asks; null: the only one that does. */
  readonly stage: string | null;
  /** The name of the person; null: no name. A token must not give one. */
  readonly by: string | null;
  readonly comment: string | null;
  readonly fields: FieldValues;
}

/** @throws AppError `api/not-allowed`, `api/invalid-request`, `cli/answer-refused` */
export async function answerAs(
  caller: Caller,
  { runId, answer }: { readonly runId: string; readonly answer: CallersAnswer },
  context: Machine,
): Promise<AnswerReceipt> {
  const { decision, comment, fields } = answer;
  const by = nameCaller(caller, answer.by);
  const stage = caller.kind === 'owner' ? answer.stage : await chooseQuestion(caller, { runId, answer }, context);
  const given = {
    decision,
    ...(by === null ? {} : { by }),
    ...(comment === null ? {} : { comment }),
    ...(Object.keys(fields).length === 0 ? {} : { fields }),
  };
  return await answerRun(runId, { stage: stage ?? undefined, given, onProgress: () => undefined }, context);
}

function nameCaller(caller: Caller, by: string | null): string | null {
  if (caller.kind === 'owner') return by;
  const { name } = caller.token;
  if (by === null || by === name) return name;
  throw new AppError(
    'usage',
    'api/invalid-request',
    `\`by\`: \`${shorten(by)}\` is not valid: the answer of a token has its name, ${name}`,
  );
}

/**
 * Returns the stage that the token may answer. A question that is not open yet is not answered, because only the
 * question names who may answer it.
 */
async function chooseQuestion(
  { token }: Extract<Caller, { readonly kind: 'token' }>,
  { runId, answer }: { readonly runId: string; readonly answer: CallersAnswer },
  context: Machine,
): Promise<string | null> {
  const [view] = await readRepairedViews([runId], context);
  // An answer that is recorded gets its receipt, and no other answer is accepted any longer.
  if (view === undefined || view.outcome !== null) return answer.stage;
  const open = openQuestionsOf(view);
  const asked = answer.stage === null ? open : open.filter(({ name }) => name === answer.stage);
  const [first, ...others] = asked;
  if (first === undefined) {
    const what = answer.stage === null ? 'no stage' : `no stage \`${shorten(answer.stage)}\``;
    throw createAnswerRefusal(runId, `${what} of run ${runId} waits for an answer`);
  }
  if (others.length > 0)
    throw new AppError(
      'usage',
      'api/invalid-request',
      `\`stage\`: ${asked.length} stages of the run wait for an answer: ${asked
        .slice(0, 8)
        .map(({ name }) => sanitizeLine(name))
        .join(', ')}`,
    );
  const { by } = first.question;
  if (by.length > 0 && ![token.name, ...token.groups].some((name) => by.includes(name)))
    throw new AppError(
      'usage',
      'api/not-allowed',
      `the token ${token.name} may not answer ${sanitizeLine(first.name)}: it asks ${by.map(sanitizeLine).join(', ')}`,
      'Answer with a token that has one of these names, or one of them as a group.',
    );
  return first.name;
}
