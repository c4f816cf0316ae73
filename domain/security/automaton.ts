/**
 * Aho–Corasick over small alphabets: one step per symbol, whatever the number of patterns. Symbols are bytes
 * or UTF-16 units; those that no pattern has share one class, so that the table stays small.
 */
export interface Automaton {
  /** `next[state * classes + classOf[symbol]]`; 0 is the start. */
  readonly next: Int32Array;
  readonly classOf: Uint16Array;
  readonly classes: number;
  /** How many of the last symbols may still become a match. */
  readonly depth: Int32Array;
  /** Length of the longest pattern that ends here; 0 is none. */
  readonly longest: Int32Array;
}

export function buildAutomaton(patterns: readonly ArrayLike<number>[], symbols: number): Automaton {
  const classOf = new Uint16Array(symbols);
  let classes = 1;
  let states = 1;
  for (const pattern of patterns) {
    states += pattern.length;
    for (let index = 0; index < pattern.length; index += 1)
      if (classOf[pattern[index]!] === 0) classOf[pattern[index]!] = classes++;
  }
  const next = new Int32Array(states * classes);
  const depth = new Int32Array(states);
  const longest = new Int32Array(states);
  let used = 1;
  for (const pattern of patterns) {
    let state = 0;
    for (let index = 0; index < pattern.length; index += 1) {
      const edge = state * classes + classOf[pattern[index]!]!;
      if (next[edge] === 0) {
        depth[used] = depth[state]! + 1;
        next[edge] = used++;
      }
      state = next[edge]!;
    }
    longest[state] = pattern.length;
  }
  close(next, classes, longest);
  return { next, classOf, classes, depth, longest };
}

/** Breadth first: where a state has no edge, it goes where its longest proper suffix goes. */
function close(next: Int32Array, classes: number, longest: Int32Array): void {
  const suffix = new Int32Array(longest.length);
  const queue = [0];
  for (let head = 0; head < queue.length; head += 1) {
    const state = queue[head]!;
    for (let symbol = 0; symbol < classes; symbol += 1) {
      const child = next[state * classes + symbol]!;
      const fallback = state === 0 ? 0 : next[suffix[state]! * classes + symbol]!;
      if (child === 0) {
        next[state * classes + symbol] = fallback;
        continue;
      }
      suffix[child] = fallback;
      longest[child] = Math.max(longest[child]!, longest[fallback]!);
      queue.push(child);
    }
  }
}
