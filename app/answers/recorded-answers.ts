/** A run that has ended accepts no new answer. The same answer as the recorded one gets its receipt again. */
import type { Client } from '@temporalio/client';
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import { readAnswersInHistory } from '../../client/runs/answers-in-history.ts';
import { describeRun } from '../../client/runs/runs.ts';
import { parseExecKey, stageNameOf } from '../../domain/run/attempt.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { type ApprovalAnswer, nameAnswerer } from '../../domain/run/approval-answer.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { AnswerView, RunView, StageView } from '../../store/run-view.ts';
import { answerIn } from '../../store/stage-projection.ts';
import type { AnswerReceipt } from '../../workflows/run/answer-request.ts';
import { AppError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { readRepairedViews } from '../runs/repair-runs.ts';
import { quoteRunId } from '../../domain/run/run-id.ts';
import { readWhatIsThere } from '../runs/run-lookup.ts';
import { quote } from '../../domain/units/quote.ts';
import type { GivenAnswer } from './given-answer.ts';

interface Answered extends StageView {
  readonly answer: AnswerView;
}

/** Checks whether the log contains the end of the run. Commands read the log before they ask a server. */
export async function hasEnded(runId: string, context: Machine): Promise<boolean> {
  return (await readWhatIsThere(await context.stores(), runId)).outcome !== null;
}

/**
 * Returns the receipt that the given answer got while the run was running.
 * @throws AppError if the run did not record this answer; the message names the recorded one
 */
export async function answerThatStands(
  runId: string,
  stageText: string | undefined,
  given: GivenAnswer,
  context: Machine,
): Promise<AnswerReceipt> {
  const { artifacts } = await context.stores();
  const [view] = await readRepairedViews([runId], context);
  const ofItem = stageText === undefined ? null : await itemAnswerThatStands(runId, stageText, given, context);
  if (ofItem !== null) return ofItem;
  const all = view!.stages.filter((stage): stage is Answered => stage.answer !== null);
  const meant = stageText === undefined ? all : all.filter(({ id }) => id === stageText);
  const [stage, ...others] = meant;
  if (stage !== undefined && others.length === 0) {
    const receipt = await receiptOf(stage, given, artifacts);
    if (receipt !== null) return receipt;
  }
  const stands = (meant.length > 0 ? meant : all).map(describeAnswer);
  throw createAnswerRefusal(runId, [explainMissingAnswer(view!, stageText), ...stands].map(sanitizeLine).join('; '));
}

/**
 * Returns the receipt that the given answer got at a stage of a run that has not ended.
 * Null: the stage did not record this answer.
 */
export async function openAnswerThatStands(
  { runId, stages }: RunView,
  name: string | undefined,
  given: GivenAnswer,
  context: Machine,
): Promise<AnswerReceipt | null> {
  const all = stages.filter((stage): stage is Answered => stage.answer !== null);
  const [stage, ...others] = name === undefined ? all : all.filter(({ id }) => id === name);
  if (stage === undefined || others.length > 0)
    return name === undefined ? null : await itemAnswerThatStands(runId, name, given, context);
  return await receiptOf(stage, given, (await context.stores()).artifacts);
}

/**
 * Returns the receipt that the given answer got at a stage of an item. This also works while the run is running,
 * because items end earlier than the run.
 * Null: no item recorded this answer.
 */
export async function itemAnswerThatStands(
  runId: string,
  name: string,
  given: GivenAnswer,
  context: Machine,
): Promise<AnswerReceipt | null> {
  if (!name.includes('[')) return null;
  const { reader, artifacts } = await context.stores();
  let last: { readonly attempt: number; readonly answer: AnswerView } | null = null;
  for await (const { atMs, body } of reader.read(runId, 0, { output: false })) {
    if (body.type !== 'stage-answered' || stageNameOf(body) !== name) continue;
    const answer = answerIn(body, atMs);
    if (answer !== null) last = { attempt: parseExecKey(body.execKey)?.attempt ?? 1, answer };
  }
  return last === null ? null : await receiptOf({ id: name, ...last }, given, artifacts);
}

/**
 * Does the same for a run of another host or a pruned run: the history of the workflow contains the answers that it
 * accepted.
 * @throws AppError as above
 */
export async function answerThatStandsElsewhere(
  client: Client,
  runId: string,
  stageText: string | undefined,
  given: GivenAnswer,
): Promise<AnswerReceipt> {
  const { state } = await describeRun(client, runId);
  const all = await readAnswersInHistory(client, runId);
  const meant = stageText === undefined ? all : all.filter(({ receipt }) => receipt.stage === stageText);
  const [answer, ...others] = meant;
  if (answer !== undefined && others.length === 0) {
    const { receipt, request } = answer;
    if (isSameNote(receipt, given) && areSame(request.fields ?? {}, given.fields ?? {})) return receipt;
  }
  const stands = (meant.length > 0 ? meant : all).map(({ receipt }) => describeReceipt(receipt));
  const none = `run ${runId} has ended (${state}) and accepts no answers`;
  throw createAnswerRefusal(runId, [none, ...stands].map(sanitizeLine).join('; '));
}

export function createAnswerRefusal(runId: string, message: string): AppError {
  return new AppError('failed', 'cli/answer-refused', message, `See: voidbox status ${quoteRunId(runId)}`);
}

function explainMissingAnswer({ runId, state, stages }: RunView, stageText: string | undefined): string {
  const ended = `run ${runId} has ended (${state}) and accepts no answers`;
  // Only the plan shows whether a stage of an item exists, so this message does not deny it.
  if (stageText === undefined || stageText.includes('[') || stages.some(({ id }) => id === stageText)) return ended;
  return `${ended}, and has no stage ${quote(stageText)}`;
}

function describeAnswer({ id, answer: { decision, by, verified, atMs } }: Answered): string {
  return describeReceipt({ stage: id, decision, by, verified, at: new Date(atMs).toISOString() });
}

function describeReceipt(receipt: Pick<AnswerReceipt, 'stage' | 'decision' | 'by' | 'verified' | 'at'>): string {
  const { stage, decision, at } = receipt;
  const done = decision === 'approve' ? 'approved' : 'rejected';
  return `${stage} was ${done}${nameAnswerer(receipt)} at ${at}`;
}

/** Null: the recorded answer differs from the given one, or the data that shows it is gone. */
async function receiptOf(
  { id, attempt, answer }: Pick<Answered, 'id' | 'attempt' | 'answer'>,
  given: GivenAnswer,
  artifacts: ArtifactStore,
): Promise<AnswerReceipt | null> {
  const { decision, by, verified, comment } = answer;
  if (!isSameNote(answer, given) || by === null) return null;
  const approval = decision === 'approve' ? await approvalIn(answer, artifacts) : null;
  if (decision === 'approve' && approval === null) return null;
  const fields = approval === null ? answer.fields : approval.fields;

  if (!areSame(fields ?? {}, given.fields ?? {})) return null;
  return {
    stage: id,
    attempt,
    decision,
    by,
    verified,
    comment,
    at: approval?.at ?? new Date(answer.atMs).toISOString(),
  };
}

function isSameNote(
  { decision, by, comment }: Pick<AnswerReceipt, 'decision' | 'by' | 'comment'>,
  given: GivenAnswer,
): boolean {
  return decision === given.decision && by === noteOf(given.by) && comment === noteOf(given.comment);
}

/** Returns the comment in the form in which a run records it. */
function noteOf(text: string | undefined): string | null {
  return text === undefined ? null : sanitizeLine(text);
}

/** Null: the artifact of the answer is gone. */
async function approvalIn({ output }: AnswerView, artifacts: ArtifactStore): Promise<ApprovalAnswer | null> {
  if (output === null) return null;
  const pieces: Uint8Array[] = [];
  try {
    for await (const piece of artifacts.open(output)) pieces.push(piece);
  } catch (error) {
    if (isCodedError(error) && error.code === 'store/damaged') return null;
    throw error;
  }
  return JSON.parse(Buffer.concat(pieces).toString('utf8')) as ApprovalAnswer;
}

/** Compares values as text, because a command line passes every value as text. */
function areSame(kept: Readonly<Record<string, unknown>>, given: Readonly<Record<string, unknown>>): boolean {
  const names = Object.keys(given);
  return (
    names.length === Object.keys(kept).length &&
    names.every((name) => Object.hasOwn(kept, name) && isSameValue(kept[name], given[name]))
  );
}

function isSameValue(kept: unknown, given: unknown): boolean {
  return typeof kept === 'number' ? Number(given) === kept : String(kept) === String(given);
}
