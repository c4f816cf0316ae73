/** Activities of a stage that asks people: they record the question and store the answer. */
import { Buffer } from 'node:buffer';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { type ApprovalWork, PLAN_LIMITS, type TextsPlan } from '../../domain/plan/plan.ts';
import { type ApprovalAnswer, checkFields, checkGivenFields } from '../../domain/run/approval-answer.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent, Question } from '../../domain/run/event.ts';
import { type InstancePath, formatStageName } from '../../domain/run/instance.ts';
import { createRedactor, type Redactor } from '../../domain/security/redactor.ts';
import { sanitize, sanitizeLine } from '../../domain/security/sanitize.ts';
import type { CheckedRejection, RecordedApproval } from '../contract.ts';
import type { ActivityDeps } from '../deps.ts';
import { type AnswerToJudge, judgeAnswer, keepJudgement } from './answer-proofs.ts';
import { readSecrets } from '../attempt/host-variables.ts';
import type { StageItem, StageRequest } from '../calls/requests.ts';
import { makeTexts, type TextDeps } from '../attempt/texts.ts';

export interface AskRequest {
  readonly runId: string;
  readonly stage: string;
  /** The item that the question belongs to; empty: the run itself. */
  readonly instance: InstancePath;
  /** Null if the question belongs to the run itself. */
  readonly item: StageItem | null;
  readonly execKey: string;
  readonly attempt: number;
  readonly approval: ApprovalWork;
  readonly deadlineAtMs: number | null;
  /** The values in the message and their sources; null: `approval` contains the message. */
  readonly made: MadeMessage | null;
  /** Names of the host variables of the run. */
  readonly hostVariables: readonly string[];
  readonly events: readonly NewRunEvent[];
}

export interface MadeMessage {
  readonly texts: TextsPlan;
  readonly upstream: StageRequest['upstream'];
}

export interface ApprovalRequest {
  readonly runId: string;
  readonly stage: string;
  readonly instance: InstancePath;
  readonly execKey: string;
  readonly approval: ApprovalWork;
  readonly by: string | null;
  readonly comment: string | null;
  readonly timedOut: boolean;
  readonly fields: unknown;
  readonly atMs: number;
}

export type RejectionRequest = Omit<ApprovalRequest, 'timedOut' | 'atMs'>;

type AnswerDeps = Pick<ActivityDeps, 'marks'>;

type AskDeps = Pick<ActivityDeps, 'events' | 'now' | 'hostVariables' | 'lentVariables' | 'starters'> & TextDeps;

/** @throws CodedError `stage/expression` if a value of the message cannot be computed */
export async function askApproval(deps: AskDeps, request: AskRequest): Promise<void> {
  const { runId, execKey, events, approval, made, item } = request;
  if (made === null && item === null) {
    await deps.events.append(runId, [...events, createAskEvent(request, deps.now())]);
    return;
  }
  if (events.length > 0) await deps.events.append(runId, events);
  // The recorded question is final.
  if ((await deps.events.find(runId, EVENT_ID.attempt(execKey, 'asking'))) !== null) return;
  const redactor = createRedactor(await readSecrets(deps, runId, request.hostVariables));
  const message = made === null ? approval.message : await messageOf(deps, request, made, redactor);
  const shown = item === null ? null : shortenText(redactor.text(sanitizeLine(item.text)));
  await deps.events.append(runId, [
    createAskEvent({ ...request, approval: { ...approval, message } }, deps.now(), shown),
  ]);
}

/**
 * Returns the message. It contains output of guests. Redact it after its control characters are removed, because only
 * then a secret may become visible.
 */
async function messageOf(
  deps: AskDeps,
  { stage, instance, approval, item }: AskRequest,
  { texts, upstream }: MadeMessage,
  redactor: Redactor,
): Promise<string> {
  const cannotAsk = (why: string): CodedError =>
    new CodedError(
      'stage/expression',
      `stage ${formatStageName(stage, instance)} cannot ask: ${redactor.text(sanitizeLine(why))}`,
    );
  const made = await makeTexts(deps, texts, upstream, item);
  if ('problem' in made) throw cannotAsk(made.problem);
  const written = made.find(({ place }) => place.kind === 'message')?.value ?? approval.message;
  const message = redactor.text(sanitize(written));
  if (message.length > PLAN_LIMITS.messageCharacters)
    throw cannotAsk(
      `its message has ${message.length} characters; at most ${PLAN_LIMITS.messageCharacters} are allowed: let an earlier stage print a short text for it`,
    );
  return message;
}

/** The most characters of an item's JSON in a question. */
const SHOWN_CHARACTERS = 200;

function shortenText(text: string): string {
  return text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS - 1)}…`;
}

/** @param item the text of the item that the question belongs to; null: the run itself */
export function createAskEvent(
  { stage, execKey, attempt, approval, deadlineAtMs }: AskRequest,
  atMs: number,
  item: string | null = null,
): NewRunEvent {
  const { message, by, selfApproval, fields, onTimeout } = approval;
  const question: Question = {
    message,
    by,
    ...(selfApproval ? {} : { selfApproval }),
    fields,
    deadlineAtMs,
    onTimeout,
    ...(item === null ? {} : { item }),
  };
  return {
    id: EVENT_ID.attempt(execKey, 'asking'),
    atMs,
    body: { type: 'stage-asking', stage, execKey, attempt, question },
  };
}

/**
 * Stores an answer. The same answer gives the same artifact, also if it is stored again.
 * @throws CodedError `call/refused`, `call/not-allowed`
 */
export async function recordApproval(
  { artifacts, marks }: Pick<ActivityDeps, 'artifacts'> & AnswerDeps,
  request: ApprovalRequest,
): Promise<RecordedApproval> {
  const { runId, approval, by, comment, timedOut, fields, atMs } = request;
  const checked = (timedOut ? checkGivenFields : checkFields)(approval.fields, fields);
  if ('problem' in checked) throw new CodedError('call/refused', `run ${runId}: ${checked.problem}`);
  // A deadline that approves without a proof is not in a plan that was admitted.
  const judged = toJudge(request, 'approve');
  const verified = timedOut && approval.selfApproval ? false : await judgeAnswer(marks, judged);
  const answer: ApprovalAnswer = {
    approved: true,
    by,
    verified,
    comment,
    fields: checked.values,
    at: new Date(atMs).toISOString(),
    timedOut,
  };
  const ref = await artifacts.put(toStream(Buffer.from(`${JSON.stringify(answer)}\n`)), 'application/json');
  await keepJudgement(marks, judged, { verified, output: ref.sha256 });
  return { ...ref, ...(verified ? { verified } : {}) };
}

/**
 * Checks a rejection. It may omit fields.
 * @throws CodedError `call/refused`, `call/not-allowed`
 */
export async function checkRejection({ marks }: AnswerDeps, request: RejectionRequest): Promise<CheckedRejection> {
  const { runId, approval, fields } = request;
  const checked = checkGivenFields(approval.fields, fields);
  if ('problem' in checked) throw new CodedError('call/refused', `run ${runId}: ${checked.problem}`);
  const judged = toJudge(request, 'reject');
  const verified = await judgeAnswer(marks, judged);
  await keepJudgement(marks, judged, { verified, output: null });
  return { fields: checked.values, ...(verified ? { verified } : {}) };
}

function toJudge(request: RejectionRequest, decision: AnswerToJudge['decision']): AnswerToJudge {
  const { runId, stage, instance, execKey, approval, by, comment, fields } = request;
  return { runId, stage: formatStageName(stage, instance), execKey, approval, decision, by, comment, fields };
}

async function* toStream(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}
