/** Opens a link to a question, and answers with it. */
import { randomUUID } from 'node:crypto';
import { findAnswerProblem } from '../../domain/run/answer-proof.ts';
import { readStartingTokens } from '../../domain/run/client-mark.ts';
import { type OpenQuestion, openQuestionsOf } from '../../store/open-questions.ts';
import type { ApprovalLinkStore } from '../../store/triggers.ts';
import type { AnswerReceipt } from '../../workflows/run/answer-request.ts';
import { answerRun } from '../answers/answer-run.ts';
import type { GivenAnswer } from '../answers/given-answer.ts';
import { proveAnswer } from '../answers/prove-answer.ts';
import { AppError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { readClientMark } from '../runs/client-mark.ts';
import { readRepairedViews } from '../runs/repair-runs.ts';
import { findSecretKeyFile, readSecretKeys } from '../secrets/secret-keys.ts';
import type { LinkTools } from './approval-links.ts';
import { hashLink, type LinkFacts, nameLink, readLink } from './link-text.ts';

/** A process that dies with a claim leaves the link free after this time. An answer takes less. */
export const CLAIM_MS = 2 * 60_000;

export interface OpenedLink extends LinkFacts {
  readonly text: string;
  /** The name of the spec. */
  readonly name: string;
  readonly question: OpenQuestion;
}

export type AnswerTools = Pick<LinkTools, 'env' | 'machine' | 'access'>;

/**
 * Returns the question of a link.
 * @returns null for a link that no key signed, that has expired or was used, and whose question does not ask any longer
 * @throws AppError `api/secrets-key`; CodedError `api/access-unavailable`
 */
export async function openLink(text: string, tools: AnswerTools): Promise<OpenedLink | null> {
  const keys = await readSecretKeys(findSecretKeyFile(tools.env));
  const facts = keys === null ? null : readLink(text, keys, tools.machine.now().getTime());
  // A stranger costs no look into the database and no read of a run.
  if (facts === null) return null;
  const links = await openLinks(tools);
  if (await links.isUsed(hashLink(text))) return null;
  const [view] = await readRepairedViews([facts.runId], tools.machine);
  const question = view === undefined ? undefined : openQuestionsOf(view).find(isAskedBy(facts));
  if (view === undefined || question === undefined) return null;
  const isAllowed = await mayAnswer(facts, question, tools.machine);
  return isAllowed ? { ...facts, text, name: view.name, question } : null;
}

function isAskedBy({ execKey }: LinkFacts): (question: OpenQuestion) => boolean {
  return (question) => question.execKey === execKey;
}

async function mayAnswer({ runId, as }: LinkFacts, { question }: OpenQuestion, machine: Machine): Promise<boolean> {
  const { by, selfApproval = true } = question;
  const starters = selfApproval ? null : readStartingTokens(await readClientMark(runId, await machine.stores()));
  return findAnswerProblem({ kind: 'link', name: as }, { by, selfApproval, starters }) === null;
}

export type LinkReceipt = AnswerReceipt;

/** `refused`: the run does not accept this answer, such as one without a field, and the link may be used again. */
export type LinkOutcome =
  | { readonly kind: 'answered'; readonly receipt: AnswerReceipt }
  | { readonly kind: 'refused'; readonly why: string }
  /** It was used, or another answer with it is on its way. */
  | { readonly kind: 'used' };

/**
 * Answers with a link. The row of the link decides between two answers at once, before the run gets one of them. The run
 * accepts one answer, whatever happens to the row.
 * @throws AppError, CodedError  the link is free again
 */
export async function answerLink(
  { text, runId, as, expiresAtMs, question }: OpenedLink,
  answer: Omit<GivenAnswer, 'by'>,
  tools: AnswerTools,
): Promise<LinkOutcome> {
  const { machine } = tools;
  const links = await openLinks(tools);
  const [link, token] = [{ hash: hashLink(text), expiresAtMs }, randomUUID()];
  const nowMs = machine.now().getTime();
  if (!(await links.claim(link, { token, nowMs, leaseMs: CLAIM_MS }))) return { kind: 'used' };
  const given: GivenAnswer = { ...answer, by: as };
  let receipt: AnswerReceipt;
  try {
    await proveAnswer({ kind: 'link', name: as }, { runId, question, given }, machine);
    receipt = await answerRun(runId, { stage: question.name, given, onProgress: () => undefined }, machine);
  } catch (error) {
    await links.release(link.hash, token);
    if (error instanceof AppError && error.code === 'cli/answer-refused')
      return { kind: 'refused', why: error.message };
    throw error;
  }
  // The question has its answer, so the link opens nothing any longer, whatever its row is.
  await links
    .use(link, machine.now().getTime())
    .catch((error: Error) => machine.warn(`the use of ${nameLink(text)} is not recorded: ${error.message}`));
  return { kind: 'answered', receipt };
}

async function openLinks({ access }: Pick<LinkTools, 'access'>): Promise<ApprovalLinkStore> {
  return (await access('find')).triggers.approvalLinks;
}
