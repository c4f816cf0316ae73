/** Lists the questions of all open runs of this state folder. */
import { type QuestionJson, toQuestionJson } from '../json/run-json.ts';
import { openQuestionsOf } from '../../store/open-questions.ts';
import type { Machine } from '../machine.ts';
import { readRepairedViews } from '../runs/repair-runs.ts';

/** More questions are counted and not listed: no person reads them, and each has a message of up to 2 KiB. */
export const MOST_QUESTIONS = 1_000;
/** Runs that are read at once. */
const RUNS_AT_ONCE = 50;

export interface ListedQuestion extends QuestionJson {
  readonly runId: string;
  /** The name of the spec. */
  readonly name: string;
  /** The stage that the answer names: `ship`, or `review[3].ok` for an item. */
  readonly stage: string;
}

export interface ListedQuestions {
  readonly questions: readonly ListedQuestion[];
  /** Whether there are more than `MOST_QUESTIONS`. */
  readonly hasMore: boolean;
}

export async function listQuestions(context: Machine): Promise<ListedQuestions> {
  const { index } = await context.stores();
  const runIds = await index.openRuns();
  const questions: ListedQuestion[] = [];
  for (let at = 0; at < runIds.length && questions.length <= MOST_QUESTIONS; at += RUNS_AT_ONCE)
    for (const view of await readRepairedViews(runIds.slice(at, at + RUNS_AT_ONCE), context))
      for (const { name: stage, question } of openQuestionsOf(view))
        questions.push({ runId: view.runId, name: view.name, stage, ...toQuestionJson(question) });
  return { questions: questions.slice(0, MOST_QUESTIONS), hasMore: questions.length > MOST_QUESTIONS };
}
