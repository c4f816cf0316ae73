/** Two texts, line by line. */

export interface DiffLine {
  /** `-`: only in the first text; `+`: only in the second text; ` `: in both. */
  readonly sign: '-' | '+' | ' ';
  readonly text: string;
}

/**
 * The limit of lines in a text that are compared line by line. Equal lines at the beginning and the end do not count.
 */
export const MOST_LINES = 2_000;
/** Equal lines that are shown before and after a difference. */
const CONTEXT = 3;

/** Returns the changed lines with a few lines around them. Null: the texts differ in too many lines. */
export function compareLines(one: string, other: string): readonly DiffLine[] | null {
  const [from, to] = [linesOf(one), linesOf(other)];
  let head = 0;
  while (head < from.length && head < to.length && from[head] === to[head]) head += 1;
  let tail = 0;
  while (tail < from.length - head && tail < to.length - head && from.at(-1 - tail) === to.at(-1 - tail)) tail += 1;
  const middle = [from.slice(head, from.length - tail), to.slice(head, to.length - tail)] as const;
  if (middle[0].length > MOST_LINES || middle[1].length > MOST_LINES) return null;
  const same = (text: string): DiffLine => ({ sign: ' ', text });
  return selectContext([
    ...from.slice(0, head).map(same),
    ...changesBetween(...middle),
    ...from.slice(from.length - tail).map(same),
  ]);
}

/** A text without a line feed at its end differs from the same text with one. */
function linesOf(text: string): readonly string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  const last = lines.pop()!;
  return last === '' ? lines : [...lines, `${last} (no line feed at the end)`];
}

/** Finds the changes by the longest common subsequence. */
function changesBetween(from: readonly string[], to: readonly string[]): readonly DiffLine[] {
  const width = to.length + 1;
  const lengths = new Uint16Array((from.length + 1) * width);
  for (let at = from.length - 1; at >= 0; at -= 1)
    for (let beside = to.length - 1; beside >= 0; beside -= 1)
      lengths[at * width + beside] =
        from[at] === to[beside]
          ? lengths[(at + 1) * width + beside + 1]! + 1
          : Math.max(lengths[(at + 1) * width + beside]!, lengths[at * width + beside + 1]!);
  const lines: DiffLine[] = [];
  let at = 0;
  let beside = 0;
  while (at < from.length || beside < to.length) {
    if (at < from.length && from[at] === to[beside]) {
      lines.push({ sign: ' ', text: from[at]! });
      at += 1;
      beside += 1;
    } else if (
      beside === to.length ||
      (at < from.length && lengths[(at + 1) * width + beside]! >= lengths[at * width + beside + 1]!)
    ) {
      lines.push({ sign: '-', text: from[at]! });
      at += 1;
    } else {
      lines.push({ sign: '+', text: to[beside]! });
      beside += 1;
    }
  }
  return lines;
}

function selectContext(lines: readonly DiffLine[]): readonly DiffLine[] {
  const near = new Set<number>();
  lines.forEach(({ sign }, at) => {
    if (sign !== ' ') for (let by = -CONTEXT; by <= CONTEXT; by += 1) near.add(at + by);
  });
  const shown: DiffLine[] = [];
  lines.forEach((line, at) => {
    if (near.has(at)) shown.push(line);
    else if (near.has(at - 1)) shown.push({ sign: ' ', text: '…' });
  });
  if (shown.at(-1)?.text === '…') shown.pop();
  return shown;
}
