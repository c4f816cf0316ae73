/** Answers a question of a run for a caller of the API. A token answers under its own name. */
import type { AnswerReceipt, Decision } from '../../workflows/run/answer-request.ts';
import { findAnswerProblem } from '../../domain/run/answer-proof.ts';
import type { FieldValues } from '../../domain/run/approval-answer.ts';
import { readStartingTokens } from '../../domain/run/client-mark.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { shorten } from '../../domain/units/quote.ts';
import type { TokenRow } from '../../store/access.ts';
import { type OpenQuestion, openQuestionsOf } from '../../store/open-questions.ts';
import type { RunView } from '../../store/run-view.ts';
import type { Caller } from '../access/authenticate.ts';
import { AppError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import type { GivenAnswer } from './given-answer.ts';
import { readClientMark } from '../runs/client-mark.ts';
import { readRepairedViews } from '../runs/repair-runs.ts';
import { type AnswerOptions, answerRun } from './answer-run.ts';
import { answerAsOwner, proveAnswer } from './prove-answer.ts';
import { createAnswerRefusal, openAnswerThatStands } from './recorded-answers.ts';

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
  const { decision, stage, comment, fields } = answer;
  const by = nameCaller(caller, answer.by);
  const given: GivenAnswer = {
    decision,
    ...(by === null ? {} : { by }),
    ...(comment === null ? {} : { comment }),
    ...(Object.keys(fields).length === 0 ? {} : { fields }),
  };
  const options = { stage: stage ?? undefined, given, onProgress: () => undefined };
  if (caller.kind === 'owner') return await answerAsOwner(runId, options, context);
  return await answerAsToken(caller.token, { runId, options }, context);
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
 * Answers the stage that the token may answer. A question that is not open yet is not answered, because only the
 * question names who may answer it.
 */
async function answerAsToken(
  token: TokenRow,
  { runId, options }: { readonly runId: string; readonly options: AnswerOptions },
  context: Machine,
): Promise<AnswerReceipt> {
  const { stage, given } = options;
  const [view] = await readRepairedViews([runId], context);
  // An answer that is recorded gets its receipt, and no other answer is accepted any longer.
  if (view === undefined || view.outcome !== null) return await answerRun(runId, options, context);
  const question = chooseQuestion(runId, view, stage);
  if (question === null) {
    const recorded = await openAnswerThatStands(view, stage, given, context);
    if (recorded !== null) return recorded;
    const what = stage === undefined ? 'no stage' : `no stage \`${shorten(stage)}\``;
    throw createAnswerRefusal(runId, `${what} of run ${runId} waits for an answer`);
  }
  await refuseToken(token, runId, question, context);
  const { name, groups } = token;
  await proveAnswer({ kind: 'token', name, groups }, { runId, question, given }, context);
  return await answerRun(runId, { ...options, stage: question.name }, context);
}

/** @returns null if no such question is open */
function chooseQuestion(runId: string, view: RunView, stage: string | undefined): OpenQuestion | null {
  const open = openQuestionsOf(view);
  const asked = stage === undefined ? open : open.filter(({ name }) => name === stage);
  const [first = null, ...others] = asked;
  if (others.length === 0) return first;
  throw new AppError(
    'usage',
    'api/invalid-request',
    `\`stage\`: ${asked.length} stages of the run wait for an answer: ${asked
      .slice(0, 8)
      .map(({ name }) => sanitizeLine(name))
      .join(', ')}`,
    `Name one as \`stage\`, such as ${sanitizeLine(asked[0]!.name)} of run ${runId}.`,
  );
}

/** The worker checks the same again, if the approval has `self_approval: false`. @throws AppError `api/not-allowed` */
async function refuseToken(
  token: TokenRow,
  runId: string,
  { name, question }: OpenQuestion,
  context: Machine,
): Promise<void> {
  const { by, selfApproval = true } = question;
  const starters = selfApproval ? null : readStartingTokens(await readClientMark(runId, await context.stores()));
  const rules = { by, selfApproval, starters };
  const problem = findAnswerProblem({ kind: 'token', name: token.name, groups: token.groups }, rules);
  if (problem === null) return;
  throw new AppError(
    'usage',
    'api/not-allowed',
    `the token ${token.name} may not answer ${sanitizeLine(name)}: ${problem}`,
    by.length === 0
      ? 'Answer with a token that did not start the run, or as the owner on the host of the run: `voidbox approve`.'
      : 'Answer with a token that has one of these names, or one of them as a group.',
  );
}
