/** `voidbox approve` and `voidbox reject`: one answer to one stage. */
import { userInfo } from 'node:os';
import { ANSWER_LIMITS, nameAnswerer } from '../../domain/run/approval-answer.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { AnswerReceipt, Decision } from '../../workflows/run/answer-request.ts';
import { openRunControl } from '../../app/control/open-run-control.ts';
import { createUsageError } from '../../app/app-error.ts';
import { formatRunId } from '../../app/runs/run-id.ts';
import { findRunOrElsewhere, isElsewhere } from '../../app/runs/run-elsewhere.ts';
import type { CliContext } from '../context.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';

export interface AnswerOptions {
  readonly json?: boolean;
  readonly comment?: string;
  readonly by?: string;
  readonly fields: Readonly<Record<string, string>>;
}

export async function answerOnCommandLine(
  decision: Decision,
  [runText = '', stage]: readonly string[],
  options: AnswerOptions,
  context: CliContext,
): Promise<ExitCode> {
  checkNote('--comment', options.comment, ANSWER_LIMITS.commentCharacters);
  checkNote('--by', options.by, ANSWER_LIMITS.byCharacters);
  const given = {
    decision,
    ...(options.by === undefined ? {} : { by: options.by }),
    ...(options.comment === undefined ? {} : { comment: options.comment }),
    ...(Object.keys(options.fields).length === 0 ? {} : { fields: options.fields }),
  };
  const found = await findRunOrElsewhere(runText, context);
  const onProgress = (line: string): void => void context.stderr.write(`==> ${line}\n`);
  const control = await openRunControl(context);
  const receipt = await control.answer(found, { stage, given, user: userInfo().username, onProgress });
  return await printReceipt(isElsewhere(found) ? found.runId : found, receipt, options, context);
}

function checkNote(option: string, text: string | undefined, mostCharacters: number): void {
  if (text !== undefined && text.length > mostCharacters)
    throw createUsageError(
      `${option} has ${text.length} characters; at most ${mostCharacters} are allowed`,
      'Shorten it.',
    );
}

async function printReceipt(
  runId: string,
  receipt: AnswerReceipt,
  options: AnswerOptions,
  context: CliContext,
): Promise<ExitCode> {
  const { stage, decision } = receipt;
  const done = decision === 'approve' ? 'approved' : 'rejected';
  await context.stdout.write(
    options.json === true
      ? `${JSON.stringify({ runId, ...receipt })}\n`
      : `${sanitizeLine(stage)} of ${formatRunId(runId)} ${done}${nameAnswerer(receipt)}\n`,
  );
  return EXIT.success;
}
