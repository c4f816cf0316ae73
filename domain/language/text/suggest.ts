/** The most candidates that a word is compared with. It limits the cost of suggestions for a text with many wrong names. */
const CANDIDATES_LIMIT = 200;

/** Other words for values: the maker of a model, or the name of its command line. */
const OTHER_VALUES: Readonly<Record<string, string>> = {
  anthropic: 'claude',
  'claude-code': 'claude',
  openai: 'codex',
  chatgpt: 'codex-personal',
};

/** Returns the known word that a misspelt word most likely means; null if none is similar. */
export function findNearest(word: string, known: Iterable<string>): string | null {
  const other = Object.hasOwn(OTHER_VALUES, word) ? OTHER_VALUES[word]! : null;
  if (other !== null && [...known].includes(other)) return other;
  return nearestWithin(word, known, Math.max(1, Math.floor(word.length / 3)));
}

/** Returns the known word that a word with a typo means: one letter of a short word, two of a longer one. */
export function withoutSlip(word: string, known: Iterable<string>): string | null {
  return word.length < 3 ? null : nearestWithin(word, known, word.length < 8 ? 1 : 2);
}

function nearestWithin(word: string, known: Iterable<string>, limit: number): string | null {
  // Longer words are not typos, and hostile words must be cheap.
  if (word.length === 0 || word.length > 64) return null;
  let best: string | null = null;
  let bestDistance = limit + 1;
  let looked = 0;
  for (const candidate of known) {
    // A candidate of another length costs nothing.
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue;
    if ((looked += 1) > CANDIDATES_LIMIT) break;
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Words of other systems for our keys, which change nothing if they are left out. */
const OTHER_WORDS: Readonly<Record<string, readonly string[]>> = { version: ['api_version'] };

/**
 * Returns the known key that a wrong key most likely means: a typo, a shortened key (`timeout`), or another system's
 * word.
 */
export function findNearestKey(word: string, known: ReadonlySet<string>): string | null {
  const other = Object.hasOwn(OTHER_WORDS, word) ? OTHER_WORDS[word]!.find((key) => known.has(key)) : undefined;
  return other ?? [...known].find((key) => key.startsWith(`${word}_`)) ?? findNearest(word, known);
}

/** Returns `; did you mean "x"?`, or an empty text. */
export function suggestNearest(suggestion: string | null): string {
  return suggestion === null ? '' : `; did you mean "${suggestion}"?`;
}

/** Counts insertions, deletions, replacements and swaps of neighbours. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      let cost = Math.min(row[j - 1]! + 1, last[j]! + 1, replaced);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, beforeLast[j - 2]! + 1);
      row.push(cost);
    }
    [beforeLast, last] = [last, row];
  }
  return last[b.length]!;
}
