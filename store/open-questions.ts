/** Lists the questions of a run that wait for an answer, by the names under which they are answered. */
import type { Question } from '../domain/run/event.ts';
import type { RunView } from './run-view.ts';

export interface OpenQuestion {
  /** `ship` for the run itself, `review[3].ok` for an item. */
  readonly name: string;
  /** The attempt that asks. */
  readonly execKey: string;
  readonly question: Question;
}

/** Lists questions in the order of the spec; questions of items in the order in which they began to wait. */
export function openQuestionsOf({ outcome, stages }: Pick<RunView, 'outcome' | 'stages'>): readonly OpenQuestion[] {
  if (outcome !== null) return [];
  return stages.flatMap(({ id, execKey, state, question, items }) => [
    ...(state === 'asking' && question !== null ? [{ name: id, execKey, question }] : []),
    ...(items?.questions ?? []),
  ]);
}
