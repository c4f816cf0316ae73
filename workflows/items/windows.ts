/** How the items of a stage are split among child workflows. */
import { itemsInWindow } from '../../domain/pipeline/item-plan.ts';

/**
 * The most stages that the items of a window run, without retries. Twice as many make a page of history that is larger
 * than a worker accepts (4 MiB of gRPC).
 */
const STAGES_IN_WINDOW = 2_500;
/**
 * Windows that are open at the same time. The server tracks 2,000 children of a workflow, and a worker keeps their
 * state in memory.
 */
const MOST_OPEN = 20;

export interface Window {
  readonly number: number;
  readonly from: number;
  /** The index after the last item. */
  readonly to: number;
}

export interface Split {
  readonly windows: readonly Window[];
  /** Slots of each concurrent window. Their sum is all slots, and each window has at least one. */
  readonly shares: readonly number[];
}

/**
 * A window that waits for its last items holds slots without use. So there are few windows, all are open from the
 * beginning, and each has items in proportion to its slots: as far as possible, they end together. If items take more
 * of a window's history than expected, the window ends early (`lastStartOf`).
 * @param stages    the stages of one item
 * @param mostSlots  concurrent items for which the history of one window has room; with more slots, more windows are
 * open
 */
export function splitItems(items: number, stages: number, maxParallel: number, mostSlots: number): Split {
  return splitBySlots(items, Math.max(1, Math.floor(STAGES_IN_WINDOW / stages)), maxParallel, mostSlots);
}

function splitBySlots(items: number, size: number, maxParallel: number, mostSlots: number): Split {
  // With two or more slots, a long item does not hold up later items of its window.
  const mostOpen = Math.min(MOST_OPEN, maxParallel, Math.max(4, Math.floor(maxParallel / 2)));
  const itemsOf = (slots: number): number => (items * slots) / maxParallel;
  let open = 1;
  const isTooLarge = (slots: number): boolean => slots > mostSlots || itemsOf(slots) > size;
  while (open < mostOpen && isTooLarge(Math.ceil(maxParallel / open))) open += 1;
  const shares = sharesOf(maxParallel, open);
  // More than one round if not all windows can be open at the same time.
  const rounds = Math.max(1, Math.ceil(itemsOf(shares[0] ?? 0) / size));
  const windows: Window[] = [];
  let slots = 0;
  let from = 0;
  for (let at = 0; at < open * rounds; at += 1) {
    slots += shares[at % open]!;
    const to = Math.floor((items * slots) / (maxParallel * rounds));
    if (to > from) windows.push({ number: windows.length, from, to });
    from = to;
  }
  return { windows, shares: shares.slice(0, windows.length) };
}

function sharesOf(maxParallel: number, open: number): readonly number[] {
  return Array.from(
    { length: open },
    (_, lane) => Math.floor(maxParallel / open) + (lane < maxParallel % open ? 1 : 0),
  );
}

/**
 * Splits a list within an item, which is usually short: the fewest windows that their histories allow, of about equal
 * sizes. All are open at the same time, as far as there are slots.
 */
export function splitItemsWithin(items: number, attempts: number, maxParallel: number): Split {
  const count = Math.ceil(items / itemsInWindow(attempts));
  const start = (number: number): number => Math.floor((items * number) / count);
  const windows = Array.from({ length: count }, (_, number) => ({
    number,
    from: start(number),
    to: start(number + 1),
  }));
  return { windows, shares: sharesOf(maxParallel, Math.min(MOST_OPEN, maxParallel, count)) };
}
