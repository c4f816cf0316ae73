/** What of a run waits for an answer, under the names by which it is answered. */
import type { Question } from '../domain/run/event.ts';
import type { RunView } from './run-view.ts';

export interface OpenQuestion {
  /** `ship` of the run itself, `review[3].ok` of an item. */
  readonly name: string;
  readonly question: Question;
}

/** In the order of the spec; of items in the order in which they began to wait. */
export function openQuestionsOf({ outcome, stages }: Pick<RunView, 'outcome' | 'stages'>): readonly OpenQuestion[] {
  if (outcome !== null) return [];
  return stages.flatMap(({ id, state, question, items }) => [
    ...(state === 'asking' && question !== null ? [{ name: id, question }] : []),
    ...(items?.questions ?? []),
  ]);
}
