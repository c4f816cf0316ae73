/** Links to questions of runs: each is for one question and one name, and answers once. */
import { findAnswerProblem } from '../../domain/run/answer-proof.ts';
import { ANSWER_LIMITS } from '../../domain/run/approval-answer.ts';
import { readStartingTokens } from '../../domain/run/client-mark.ts';
import type { Question } from '../../domain/run/event.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { quote } from '../../domain/units/quote.ts';
import type { Environment } from '../../setup/environment.ts';
import type { OpenAccess } from '../access/access-opener.ts';
import { AppError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { readClientMark } from '../runs/client-mark.ts';
import { openSigningKeys } from '../secrets/change-secrets.ts';
import { findSecretKeyFile } from '../secrets/secret-keys.ts';
import { nameLink, signLink } from './link-text.ts';

/** How long a link to a question without a deadline answers. */
export const LINK_MS = 7 * 24 * 60 * 60_000;
export const APPROVALS_PATH = '/approvals/';

/** Returns the URL under which people reach the service, such as `https://api.example`; null: none is known. */
export type ReadClientUrl = () => Promise<string | null>;

export interface LinkTools {
  readonly env: Environment;
  readonly machine: Machine;
  readonly access: OpenAccess;
  readonly readClientUrl: ReadClientUrl;
}

/** A question that asks now. */
export interface LinkedQuestion {
  readonly runId: string;
  /** The stage that asks, for people: `ship`, or `review[3].ok` for an item. */
  readonly stage: string;
  readonly execKey: string;
  readonly question: Pick<Question, 'by' | 'selfApproval' | 'deadlineAtMs'>;
}

export interface ApprovalLink {
  /** Its owner may answer. It must not get into a log. */
  readonly url: string;
  /** The name of the link in logs and in the audit log. */
  readonly link: string;
  readonly runId: string;
  readonly stage: string;
  readonly as: string;
  /** ISO 8601. */
  readonly expiresAt: string;
}

/**
 * Makes a link for one name. The same question, name and end have the same link, so a message that is sent twice
 * contains it twice.
 * @throws AppError `api/invalid-request` if the question does not ask this name, or asks no longer;
 *   `api/no-address` if no one could reach the link; `api/secrets-key`
 */
export async function createApprovalLink(
  { runId, stage, execKey, question }: LinkedQuestion,
  as: string,
  tools: LinkTools,
): Promise<ApprovalLink> {
  const nowMs = tools.machine.now().getTime();
  await requireAsked({ runId, question }, as, tools.machine);
  const expiresAtMs = question.deadlineAtMs ?? nowMs + LINK_MS;
  if (expiresAtMs <= nowMs) throw refuse('stage', stage, 'its deadline has passed');
  const { secrets } = (await tools.access('find')).triggers;
  const keys = await openSigningKeys({ keyFile: findSecretKeyFile(tools.env), secrets });
  const base = await tools.readClientUrl();
  if (base === null)
    throw new AppError(
      'environment',
      'api/no-address',
      'the service has no address that a person could open: it does not listen over TCP, or on all addresses without a name',
    );
  const text = signLink({ runId, execKey, as, expiresAtMs }, keys);
  return {
    url: `${base}${APPROVALS_PATH}${text}`,
    link: nameLink(text),
    runId,
    stage,
    as,
    expiresAt: new Date(expiresAtMs).toISOString(),
  };
}

/** @throws AppError `api/invalid-request` */
async function requireAsked(
  { runId, question }: Pick<LinkedQuestion, 'runId' | 'question'>,
  as: string,
  machine: Machine,
): Promise<void> {
  if (as === '' || as !== sanitizeLine(as) || as.length > ANSWER_LIMITS.byCharacters)
    throw refuse('as', as, `a name has 1 to ${ANSWER_LIMITS.byCharacters} characters in one line`);
  const { by, selfApproval = true } = question;
  const starters = selfApproval ? null : readStartingTokens(await readClientMark(runId, await machine.stores()));
  const problem = findAnswerProblem({ kind: 'link', name: as }, { by, selfApproval, starters });
  if (problem === null) return;
  const known = by.length === 0 ? 'its approval names no one in `by`' : `it asks ${by.map(sanitizeLine).join(', ')}`;
  throw refuse('as', as, by.includes(as) ? problem : known);
}

function refuse(key: string, value: string, problem: string): AppError {
  return new AppError('usage', 'api/invalid-request', `\`${key}\`: ${quote(value)} is not valid: ${problem}`);
}
