/**
 * Selects the stage whose lines are printed. A user types `resize`, `resize[3]`, `review[3].lint`, `review[3].lint[0]`
 * or `review.lint`, and for a later visit of a loop `resize#2[3]`.
 */
import { stageNameOf } from '../../domain/run/attempt.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import type { StageView } from '../../store/run-view.ts';

export interface StagesOfRun {
  readonly own: readonly Pick<StageView, 'id' | 'items' | 'attempt'>[];
  /** Stages that a part has for each item, under their names in the plan: `review.lint`. */
  readonly ofItems: readonly string[];
  /** The stages among `ofItems` that have items themselves. */
  readonly lists: readonly string[];
}

/** The number of an item within the name of a stage. */
const NUMBER = /(?:#(?:[2-9]|[1-9]\d{1,3}))?\[\d{1,6}\]/g;
const AFTER_ID = /^(?:(?:#([2-9]|[1-9]\d{1,3}))?\[(\d{1,6})\])?(?:\.(.+))?$/s;

export function hasStage(name: string, { own, ofItems, lists }: StagesOfRun): boolean {
  const isOfItems = (inner: string): boolean =>
    ofItems.some((stage) => stage === inner || stage.startsWith(`${inner}.`));
  if (isOfItems(name)) return true;
  return own.some(({ id, items, attempt }) => {
    if (id === name) return true;
    if (items === null || !name.startsWith(id)) return false;
    const [found, list = '1', item, within] = AFTER_ID.exec(name.slice(id.length)) ?? [];
    if (found === undefined || Number(list) > Math.max(attempt, 1)) return false;
    // How many an earlier visit had is not kept.
    if (item !== undefined && Number(list) === Math.max(attempt, 1) && Number(item) >= items.total) return false;
    if (within === undefined) return true;
    const plain = (text: string): string => `${id}.${text.replaceAll(NUMBER, '')}`;
    // A list within an item has as many items as it has there.
    const numbered = [...within.matchAll(NUMBER)].map(({ index }) => plain(within.slice(0, index)));
    return numbered.every((list) => lists.includes(list)) && isOfItems(plain(within));
  });
}

/** `resize` is the stage with all its items, `resize[3]` one of them with all its stages, `resize[3].cut` one of these. */
export function isOfStage(body: RunEvent['body'], name: string): boolean {
  if (!('stage' in body)) return false;
  if (body.stage === name) return true;
  if (!('execKey' in body)) return false;
  const shown = stageNameOf(body);
  return shown === name || (shown !== body.stage && (shown.startsWith(`${name}.`) || shown.startsWith(`${name}[`)));
}
