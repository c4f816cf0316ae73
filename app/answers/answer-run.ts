/** Answers one question of a run. */
import type { AnswerReceipt, AnswerRequest, Decision } from '../../workflows/run/answer-request.ts';
import { ANSWER_LIMITS } from '../../domain/run/approval-answer.ts';
import { quoteRunId } from '../../domain/run/run-id.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { createEnvironmentError, createUsageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import type { GivenAnswer } from './given-answer.ts';
import { describeMissingWorker } from '../runs/missing-worker.ts';
import { isElsewhere, type RunElsewhere } from '../runs/run-elsewhere.ts';
import { formatRunId, quoteStageName } from '../runs/run-id.ts';
import { openRunsLink } from '../server-link.ts';
import {
  answerThatStands,
  answerThatStandsElsewhere,
  createAnswerRefusal,
  hasEnded,
  itemAnswerThatStands,
} from './recorded-answers.ts';

export interface AnswerOptions {
  /** The stage that asks; absent: the only one that does. */
  readonly stage: string | undefined;
  readonly given: GivenAnswer;
  /** The name of the person, for an answer without a name. A token answers under its own name instead. Absent: no name. */
  readonly user?: string;
  readonly onProgress: (line: string) => void;
}

/**
 * The same answer as the recorded one gets its receipt again, also after the end of the run.
 * @throws AppError `cli/answer-refused` for another answer, and for a stage that does not ask
 */
export async function answerRun(
  found: string | RunElsewhere,
  { stage: named, given, onProgress }: AnswerOptions,
  context: Machine,
): Promise<AnswerReceipt> {
  checkNote('comment', given.comment, ANSWER_LIMITS.commentCharacters);
  checkNote('by', given.by, ANSWER_LIMITS.byCharacters);
  const runId = isElsewhere(found) ? found.runId : found;
  if (!isElsewhere(found) && (await hasEnded(runId, context)))
    return await answerThatStands(runId, named, given, context);
  const { AnswerError, answerStage, listAskingStages } = await import('../../client/runs/answers.ts');
  // An answer needs a worker, so the stack is started when it sleeps.
  const link = await openRunsLink(context, { start: true, onProgress });
  if (link === null) throw createEnvironmentError('cli/no-server', 'the server of the embedded stack does not answer');
  const readHistory = (): Promise<AnswerReceipt> =>
    link.briefly((client) => answerThatStandsElsewhere(client, runId, named, given));
  if (isElsewhere(found) && found.state !== 'running') return await readHistory();
  try {
    const asking = named === undefined ? await link.briefly((client) => listAskingStages(client, runId)) : [];
    const stage = named ?? requireOneQuestion(runId, asking, given.decision);
    const request: AnswerRequest = { stage, ...given };
    return await link.briefly((client) => answerStage(client, runId, request));
  } catch (error) {
    if (!(error instanceof AnswerError)) throw error;
    if (error.kind === 'silent')
      throw createEnvironmentError(
        'cli/no-server',
        error.message,
        (await describeMissingWorker(link, Date.now())) ?? 'Try again; `voidbox ps` shows whether the worker runs.',
      );
    const recorded =
      named === undefined || isElsewhere(found) ? null : await itemAnswerThatStands(runId, named, given, context);
    if (recorded !== null) return recorded;
    if (error.kind === 'ended')
      return isElsewhere(found) ? await readHistory() : await answerThatStands(runId, named, given, context);
    throw createAnswerRefusal(runId, error.message);
  }
}

function checkNote(key: string, text: string | undefined, mostCharacters: number): void {
  if (text !== undefined && text.length > mostCharacters)
    throw createUsageError(
      `\`${key}\` has ${text.length} characters; at most ${mostCharacters} are allowed`,
      'Shorten it.',
    );
}

/** @throws AppError */
function requireOneQuestion(runId: string, asking: readonly string[], decision: Decision): string {
  const [first, ...others] = asking;
  if (first === undefined) throw createAnswerRefusal(runId, `no stage of run ${runId} waits for an answer`);
  if (others.length === 0) return first;
  throw createUsageError(
    `${asking.length} stages of run ${formatRunId(runId)} wait for an answer: ${asking.map(sanitizeLine).join(', ')}`,
    `Name one: voidbox ${decision} ${quoteRunId(runId)} ${quoteStageName(first)}`,
  );
}
