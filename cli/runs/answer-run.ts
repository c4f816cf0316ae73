/** `voidbox approve` and `voidbox reject`: one answer to one stage. */
import { userInfo } from 'node:os';
import { AnswerError, answerStage, listAskingStages } from '../../client/runs/answers.ts';
import { openServerLink } from '../../client/temporal/server-link.ts';
import { ANSWER_LIMITS } from '../../domain/run/approval-answer.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { AnswerReceipt, AnswerRequest, Decision } from '../../workflows/run/answer-request.ts';
import {
  answerThatStands,
  answerThatStandsElsewhere,
  hasEnded,
  itemAnswerThatStands,
  createAnswerRefusal,
} from '../../app/runs/answers.ts';
import { createEnvironmentError, createUsageError } from '../../app/app-error.ts';
import type { CliContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import { describeMissingWorker } from '../../app/runs/missing-worker.ts';
import { quoteRunId } from '../../domain/run/run-id.ts';
import { formatRunId, quoteStageName } from '../../app/runs/run-id.ts';
import { findRunOrElsewhere, isElsewhere } from '../../app/runs/run-elsewhere.ts';

export interface AnswerOptions {
  readonly json?: boolean;
  readonly comment?: string;
  readonly by?: string;
  readonly fields: Readonly<Record<string, string>>;
}

export async function answerRun(
  decision: Decision,
  [runText = '', stageText]: readonly string[],
  options: AnswerOptions,
  context: CliContext,
): Promise<ExitCode> {
  checkNote('--comment', options.comment, ANSWER_LIMITS.commentCharacters);
  checkNote('--by', options.by, ANSWER_LIMITS.byCharacters);
  const given = {
    decision,
    by: options.by ?? userInfo().username,
    ...(options.comment === undefined ? {} : { comment: options.comment }),
    ...(Object.keys(options.fields).length === 0 ? {} : { fields: options.fields }),
  };
  const found = await findRunOrElsewhere(runText, context);
  const runId = isElsewhere(found) ? found.runId : found;
  const printRecordedAnswer = async (): Promise<ExitCode> =>
    printReceipt(runId, await answerThatStands(runId, stageText, given, context), options, context);
  if (!isElsewhere(found) && (await hasEnded(runId, context))) return await printRecordedAnswer();
  // An answer needs a worker, so the stack is started when it sleeps.
  const link = await openServerLink(context, {
    start: true,
    onProgress: (line) => void context.stderr.write(`==> ${line}\n`),
  });
  if (link === null) throw new Error('the embedded stack was not started');
  const printAnswerOfHistory = async (): Promise<ExitCode> =>
    printReceipt(
      runId,
      await link.briefly((client) => answerThatStandsElsewhere(client, runId, stageText, given)),
      options,
      context,
    );
  if (isElsewhere(found) && found.state !== 'running') return await printAnswerOfHistory();
  try {
    const stage =
      stageText ?? requireOneQuestion(runId, await link.briefly((client) => listAskingStages(client, runId)), decision);
    const request: AnswerRequest = { stage, ...given };
    return await printReceipt(
      runId,
      await link.briefly((client) => answerStage(client, runId, request)),
      options,
      context,
    );
  } catch (error) {
    if (!(error instanceof AnswerError)) throw error;
    if (error.kind === 'silent')
      throw createEnvironmentError(
        'cli/no-server',
        error.message,
        (await describeMissingWorker(link, Date.now())) ?? 'Try again; `voidbox ps` shows whether the worker runs.',
      );
    const stands =
      stageText === undefined || isElsewhere(found)
        ? null
        : await itemAnswerThatStands(runId, stageText, given, context);
    if (stands !== null) return await printReceipt(runId, stands, options, context);
    if (error.kind === 'ended') return isElsewhere(found) ? await printAnswerOfHistory() : await printRecordedAnswer();
    throw createAnswerRefusal(runId, error.message);
  }
}

function checkNote(option: string, text: string | undefined, mostCharacters: number): void {
  if (text !== undefined && text.length > mostCharacters)
    throw createUsageError(
      `${option} has ${text.length} characters; at most ${mostCharacters} are allowed`,
      'Shorten it.',
    );
}

function requireOneQuestion(runId: string, asking: readonly string[], decision: Decision): string {
  const [first, ...others] = asking;
  if (first === undefined) throw new AnswerError('refused', `no stage of run ${runId} waits for an answer`);
  if (others.length === 0) return first;
  throw createUsageError(
    `${asking.length} stages of run ${formatRunId(runId)} wait for an answer: ${asking.map(sanitizeLine).join(', ')}`,
    `Name one: voidbox ${decision} ${quoteRunId(runId)} ${quoteStageName(first)}`,
  );
}

async function printReceipt(
  runId: string,
  receipt: AnswerReceipt,
  options: AnswerOptions,
  context: CliContext,
): Promise<ExitCode> {
  const { stage, decision, by } = receipt;
  const done = decision === 'approve' ? 'approved' : 'rejected';
  await context.stdout.write(
    options.json === true
      ? `${JSON.stringify({ runId, ...receipt })}\n`
      : `${sanitizeLine(stage)} of ${formatRunId(runId)} ${done}${by === null ? '' : ` by ${sanitizeLine(by)}`}\n`,
  );
  return EXIT.success;
}
