/** Writes who answers a question to the state folder, before the run gets the answer: no argument of a run proves it. */
import { createHash } from 'node:crypto';
import {
  type Answerer,
  type AnswerProof,
  describeAnswer,
  findAnswererName,
  nameProof,
} from '../../domain/run/answer-proof.ts';
import { openQuestionsOf, type OpenQuestion } from '../../store/open-questions.ts';
import type { AnswerReceipt } from '../../workflows/run/answer-request.ts';
import type { Machine } from '../machine.ts';
import { isElsewhere, type RunElsewhere } from '../runs/run-elsewhere.ts';
import { readWhatIsThere } from '../runs/run-lookup.ts';
import { type AnswerOptions, answerRun } from './answer-run.ts';
import { type GivenAnswer, nameUser } from './given-answer.ts';

/** Answers for the owner of the state folder: a command on this machine, or a client of the Unix socket. */
export async function answerAsOwner(
  found: string | RunElsewhere,
  { user, ...rest }: AnswerOptions,
  context: Machine,
): Promise<AnswerReceipt> {
  const options = { ...rest, given: nameUser(rest.given, user) };
  // A question of a run on another host has its proofs there.
  const question = isElsewhere(found) ? null : await findQuestion(found, options.stage, context);
  // Other questions accept any answer, so a proof of the owner would prove nothing.
  if (question !== null && question.question.selfApproval === false)
    await proveAnswer({ kind: 'owner' }, { runId: found as string, question, given: options.given }, context);
  return await answerRun(found, options, context);
}

/** @param stage  absent: the only stage that asks; of several, none is meant */
async function findQuestion(runId: string, stage: string | undefined, context: Machine): Promise<OpenQuestion | null> {
  const open = openQuestionsOf(await readWhatIsThere(await context.stores(), runId));
  const meant = stage === undefined ? open : open.filter(({ name }) => name === stage);
  return meant.length === 1 ? meant[0]! : null;
}

/** A proof that a killed process left is replaced by the same answer, which then gets the same receipt. */
export async function proveAnswer(
  answerer: Answerer,
  { runId, question, given }: { readonly runId: string; readonly question: OpenQuestion; readonly given: GivenAnswer },
  context: Machine,
): Promise<void> {
  const { marks } = await context.stores();
  const { decision, by = null, comment = null, fields } = given;
  const proof: AnswerProof = {
    answerer,
    decision,
    digest: hash(describeAnswer({ decision, by, comment, fields })),
  };
  await marks.put(runId, nameProof(hash, question.execKey, findAnswererName(answerer)), proof);
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
