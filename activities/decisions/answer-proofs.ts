/** Checks who answered a question, by the proofs in the marks of the run. */
import { createHash } from 'node:crypto';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { stageOfPlan } from '../../domain/plan/item-parts.ts';
import type { ApprovalWork } from '../../domain/plan/plan.ts';
import { approvalOf } from '../../domain/plan/work.ts';
import {
  type AnswerProof,
  describeAnswer,
  findAnswerProblem,
  findAnswererName,
  nameProof,
  type ProvenAnswer,
  readProof,
} from '../../domain/run/answer-proof.ts';
import { stageNameOf } from '../../domain/run/attempt.ts';
import { CLIENT_MARK, readStartingTokens } from '../../domain/run/client-mark.ts';
import type { NewRunEvent, RunEventBody } from '../../domain/run/event.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { HostMarks } from '../ports/host-marks.ts';
import type { AdmittedRun } from '../admission/admitted-run.ts';

type AnsweredBody = Extract<RunEventBody, { readonly type: 'stage-answered' }>;

export interface AnswerToJudge extends ProvenAnswer {
  readonly runId: string;
  /** The name of the stage for people. */
  readonly stage: string;
  readonly execKey: string;
  readonly approval: Pick<ApprovalWork, 'by' | 'selfApproval'>;
}

type Marks = Pick<HostMarks, 'get' | 'put'>;

/**
 * Returns whether a token or a link proved that it sent the answer.
 * @throws CodedError `call/not-allowed` if the approval needs a proof that the answer does not have
 */
export async function judgeAnswer(marks: Marks, answer: AnswerToJudge): Promise<boolean> {
  const { runId, by, approval } = answer;
  const proof = by === null ? null : await findProof(marks, answer, by);
  if (approval.selfApproval) return proof !== null;
  if (proof === null || proof.answerer.kind === 'owner') {
    if ((await findProof(marks, answer, null)) !== null) return false;
    throw createRefusal(answer, 'nothing proves who sent the answer');
  }
  const starters = readStartingTokens(await marks.get(runId, CLIENT_MARK));
  const problem = findAnswerProblem(proof.answerer, { ...approval, starters });
  const { kind, name } = proof.answerer;
  if (problem !== null)
    throw createRefusal(answer, `the ${kind} ${kind === 'link' ? 'for ' : ''}${name} may not answer: ${problem}`);
  return true;
}

/** @param name  null: the proof of the owner */
async function findProof(marks: Marks, answer: AnswerToJudge, name: string | null): Promise<AnswerProof | null> {
  const proof = readProof(await marks.get(answer.runId, nameProof(hash, answer.execKey, name)));
  return proof !== null && findAnswererName(proof.answerer) === name && proof.digest === hash(describeAnswer(answer))
    ? proof
    : null;
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function createRefusal({ runId, stage }: Pick<AnswerToJudge, 'runId' | 'stage'>, why: string): CodedError {
  return new CodedError('call/not-allowed', `run ${runId}: the answer to ${sanitizeLine(stage)} is refused: ${why}`);
}

/** The judgement of the answer that a run records. Later proofs of the same question do not change it. */
interface Judgement {
  readonly decision: 'approve' | 'reject';
  readonly by: string | null;
  readonly comment: string | null;
  readonly verified: boolean;
  /** The SHA-256 of the artifact of an approval; null: a rejection. */
  readonly output: string | null;
}

/** Keeps the judgement of an answer that is proven or has to be, for the check of its event. */
export async function keepJudgement(
  marks: Marks,
  { runId, execKey, decision, by, comment, approval }: AnswerToJudge,
  { verified, output }: Pick<Judgement, 'verified' | 'output'>,
): Promise<void> {
  if (!verified && approval.selfApproval) return;
  await marks.put(runId, nameJudgement(execKey), { decision, by, comment, verified, output } satisfies Judgement);
}

function nameJudgement(execKey: string): string {
  return `judged-${hash(execKey)}`;
}

export interface AnswerDeps {
  readonly marks: Marks;
  readonly runOf: (runId: string) => Promise<AdmittedRun>;
}

/**
 * Adds to a log the check of the answers in its events. The workflow sends these events, and a client of the server can
 * end the check of an answer instead of the worker.
 */
export function checkAnswersIn(events: EventLog, deps: AnswerDeps): EventLog {
  return {
    find: (runId, id) => events.find(runId, id),
    outputCursor: (runId, execKey, stream) => events.outputCursor(runId, execKey, stream),
    async append(runId, given, writer) {
      for (const { body } of given) {
        if (body.type !== 'stage-answered' || (await isProven(deps, runId, body))) continue;
        throw createRefusal({ runId, stage: stageNameOf(body) }, 'no worker of this host has judged it');
      }
      return await events.append(runId, given, writer);
    },
  };
}

/** Leaves out events with answers that have no proof and need one. */
export async function filterProven(
  deps: AnswerDeps,
  runId: string,
  events: readonly NewRunEvent[],
): Promise<readonly NewRunEvent[]> {
  const proven: NewRunEvent[] = [];
  for (const event of events)
    if (event.body.type !== 'stage-answered' || (await isProven(deps, runId, event.body))) proven.push(event);
  return proven;
}

async function isProven({ marks, runOf }: AnswerDeps, runId: string, body: AnsweredBody): Promise<boolean> {
  const { stage, execKey, outcome, failure, by = null, verified = false, comment = null, output } = body;
  const isRejection = failure?.code === 'stage/rejected' && by !== null;
  // A question that was withdrawn, that cannot be asked, or whose deadline passed has no answer.
  if (outcome !== 'succeeded' && !isRejection && !verified) return true;
  if (!verified && !needsProof(await runOf(runId), stage)) return true;
  const judged = (await marks.get(runId, nameJudgement(execKey))) as Partial<Judgement> | null | undefined;
  return (
    judged?.decision === (outcome === 'succeeded' ? 'approve' : 'reject') &&
    judged.by === by &&
    judged.comment === comment &&
    judged.verified === verified &&
    judged.output === (output?.sha256 ?? null)
  );
}

function needsProof({ plan }: AdmittedRun, stage: string): boolean {
  const work = stageOfPlan(plan, stage)?.work;
  return work !== undefined && approvalOf(work)?.selfApproval === false;
}
