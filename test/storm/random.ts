/** Numbers that a seed gives again: a storm that found something can be sent once more. */
export interface Random {
  /** From 0 up to, not including, `limit`. */
  below(limit: number): number;
  between(least: number, most: number): number;
  pick<T>(values: readonly T[]): T;
}

/** Mulberry32: 32 bits of state are plenty for a few hundred choices. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  const below = (limit: number): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296) * limit);
  };
  return {
    below,
    between: (least, most) => least + below(most - least + 1),
    pick: (values) => values[below(values.length)]!,
  };
}

/** Each round has a seed of its own, so that one round can be played without the others. */
export function roundSeed(seed: number, round: number): number {
  return (Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) + Math.imul(round + 1, 0xc2b2ae35)) >>> 0;
}
