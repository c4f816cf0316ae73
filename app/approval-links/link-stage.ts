/** Makes a link to a stage of a run that asks now. */
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { shorten } from '../../domain/units/quote.ts';
import { type OpenQuestion, openQuestionsOf } from '../../store/open-questions.ts';
import { createAnswerRefusal } from '../answers/recorded-answers.ts';
import { AppError } from '../app-error.ts';
import { readRepairedViews } from '../runs/repair-runs.ts';
import { type ApprovalLink, createApprovalLink, type LinkTools } from './approval-links.ts';

export interface LinkRequest {
  readonly runId: string;
  /** Null: the only stage that asks. */
  readonly stage: string | null;
  /** The name that answers. */
  readonly as: string;
}

/** @throws AppError `cli/answer-refused` if the stage does not ask, and like `createApprovalLink` */
export async function linkStage({ runId, stage, as }: LinkRequest, tools: LinkTools): Promise<ApprovalLink> {
  const [view] = await readRepairedViews([runId], tools.machine);
  const open = view === undefined ? [] : openQuestionsOf(view);
  const { name, execKey, question } = chooseQuestion(runId, open, stage);
  return await createApprovalLink({ runId, stage: name, execKey, question }, as, tools);
}

function chooseQuestion(runId: string, open: readonly OpenQuestion[], stage: string | null): OpenQuestion {
  const [first, ...others] = stage === null ? open : open.filter(({ name }) => name === stage);
  if (first === undefined) {
    const what = stage === null ? 'no stage' : `no stage \`${shorten(stage)}\``;
    throw createAnswerRefusal(runId, `${what} of run ${runId} waits for an answer`);
  }
  if (others.length === 0) return first;
  const names = open.slice(0, 8).map(({ name }) => sanitizeLine(name));
  throw new AppError(
    'usage',
    'api/invalid-request',
    `\`stage\`: ${open.length} stages of the run wait for an answer: ${names.join(', ')}`,
    `Name one of them as the stage, such as ${names[0]}.`,
  );
}
