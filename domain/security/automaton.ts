/**
 * Aho–Corasick over small alphabets: one step per symbol, whatever the number of patterns. Symbols are bytes or UTF-16
 * units; symbols that occur in no pattern share one class. Each state has a row with the next state for every class. If
 * the rows need too much memory, a state with only one child takes a few bytes instead. The first states keep their
 * rows, because ordinary text passes through them.
 */
export interface Automaton {
  readonly classOf: Uint16Array;
  /** Where a state's row begins in `ways`, or -1. */
  readonly rows: Int32Array;
  readonly ways: Int32Array;
  /** For a state without a row: the class of its only child, and the child. */
  readonly labels: Uint16Array;
  readonly children: Int32Array;
  /** For a state without a row: the state of the longest proper suffix, which handles the other classes. */
  readonly suffixes: Int32Array;
  /** How many of the last symbols may still become a match. */
  readonly depth: Int32Array;
  /** Length of the longest pattern that ends here; 0: no pattern ends here. */
  readonly longest: Int32Array;
  /** The owner of that pattern. */
  readonly owners: Int32Array;
  /** 1 if the scan skips line breaks inside of a pattern. */
  readonly wraps: Uint8Array;
}

/** Entries of 4 bytes. A larger table is slower than no table, because it does not fit into a processor's cache. */
const TABLE_ENTRIES = 512 * 1024;

export interface Pattern {
  readonly symbols: ArrayLike<number>;
  /** The number by which the caller identifies the owner of the pattern. */
  readonly owner: number;
}

export interface Patterns {
  readonly plain: readonly Pattern[];
  /** Patterns that may be broken into lines. */
  readonly wrapped: readonly Pattern[];
}

export function buildAutomaton({ plain, wrapped }: Patterns, symbols: number): Automaton {
  const patterns = [...plain, ...wrapped];
  const { classOf, classes } = classify(patterns, symbols);
  const most = patterns.reduce((sum, pattern) => sum + pattern.symbols.length, 1);
  const trie = {
    labels: new Uint16Array(most),
    children: new Int32Array(most),
    siblings: new Int32Array(most),
    depth: new Int32Array(most),
    longest: new Int32Array(most),
    owners: new Int32Array(most),
    wraps: new Uint8Array(most),
    states: 1,
  };
  for (const pattern of plain) insert(trie, pattern, classOf, 0);
  for (const pattern of wrapped) insert(trie, pattern, classOf, 1);
  return link(trie, classOf, classes);
}

/** Returns the next state. The code that steps for every byte has a copy of this loop. */
export function step({ rows, ways, labels, children, suffixes }: Automaton, from: number, symbol: number): number {
  let state = from;
  while (rows[state]! < 0) {
    if (labels[state] === symbol) return children[state]!;
    state = suffixes[state]!;
  }
  return ways[rows[state]! + symbol]!;
}

interface Trie {
  /** The label of the edge that leads to a state. */
  readonly labels: Uint16Array;
  readonly children: Int32Array;
  readonly siblings: Int32Array;
  readonly depth: Int32Array;
  readonly longest: Int32Array;
  readonly owners: Int32Array;
  readonly wraps: Uint8Array;
  states: number;
}

function classify(
  patterns: readonly Pattern[],
  count: number,
): { readonly classOf: Uint16Array; readonly classes: number } {
  const classOf = new Uint16Array(count);
  let classes = 1;
  for (const { symbols } of patterns)
    for (let index = 0; index < symbols.length; index += 1)
      if (classOf[symbols[index]!] === 0) classOf[symbols[index]!] = classes++;
  return { classOf, classes };
}

function insert(trie: Trie, { symbols, owner }: Pattern, classOf: Uint16Array, wraps: 0 | 1): void {
  let state = 0;
  for (let index = 0; index < symbols.length; index += 1) {
    const label = classOf[symbols[index]!]!;
    let child = trie.children[state]!;
    while (child !== 0 && trie.labels[child] !== label) child = trie.siblings[child]!;
    if (child === 0) {
      child = trie.states++;
      trie.labels[child] = label;
      trie.depth[child] = index + 1;
      trie.siblings[child] = trie.children[state]!;
      trie.children[state] = child;
    }
    state = child;
    // After the last symbol no line break can be inside the pattern.
    if (index < symbols.length - 1) trie.wraps[state]! |= wraps;
  }
  trie.longest[state] = symbols.length;
  trie.owners[state] = owner;
}

/** Links states breadth first: a class without a child leads to the next state of the longest proper suffix. */
function link(trie: Trie, classOf: Uint16Array, classes: number): Automaton {
  const { states, siblings } = trie;
  const isSmall = states * classes <= TABLE_ENTRIES;
  const made = {
    classOf,
    rows: new Int32Array(states).fill(-1),
    ways: new Int32Array(classes * rowsOf(trie, isSmall)),
    labels: new Uint16Array(states),
    children: new Int32Array(states),
    suffixes: new Int32Array(states),
    depth: trie.depth.slice(0, states),
    longest: trie.longest.slice(0, states),
    owners: trie.owners.slice(0, states),
    wraps: trie.wraps.slice(0, states),
  };
  let used = 0;
  const queue = new Int32Array(states);
  let end = 1;
  for (let head = 0; head < end; head += 1) {
    const state = queue[head]!;
    const suffix = made.suffixes[state]!;
    for (let child = trie.children[state]!; child !== 0; child = siblings[child]!) {
      const to = state === 0 ? 0 : step(made, suffix, trie.labels[child]!);
      made.suffixes[child] = to;
      if (made.longest[to]! > made.longest[child]!) {
        made.longest[child] = made.longest[to]!;
        made.owners[child] = made.owners[to]!;
      }
      queue[end++] = child;
    }
    if (!isSmall && !hasRow(trie, state)) {
      made.labels[state] = trie.labels[trie.children[state]!]!;
      made.children[state] = trie.children[state]!;
      continue;
    }
    const row = used;
    used += classes;
    if (state !== 0)
      for (let symbol = 0; symbol < classes; symbol += 1) made.ways[row + symbol] = step(made, suffix, symbol);
    for (let child = trie.children[state]!; child !== 0; child = siblings[child]!)
      made.ways[row + trie.labels[child]!] = child;
    made.rows[state] = row;
  }
  return made;
}

function hasRow({ children, siblings, depth }: Trie, state: number): boolean {
  return depth[state]! < 2 || (children[state] !== 0 && siblings[children[state]!] !== 0);
}

function rowsOf(trie: Trie, isSmall: boolean): number {
  if (isSmall) return trie.states;
  let rows = 0;
  for (let state = 0; state < trie.states; state += 1) if (hasRow(trie, state)) rows += 1;
  return rows;
}
