/** Where a round's time goes. Phases follow each other; what runs side by side belongs to the phase that waits for it. */

export const PHASES = [
  'blows',
  'stops',
  'up',
  'begin',
  'finish',
  'commands',
  'records',
  'followers',
  'leftovers',
  'down',
] as const;
export type Phase = (typeof PHASES)[number];

export class Phases {
  readonly #spentMs = new Map<Phase, number>();

  async of<T>(phase: Phase, work: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    try {
      return await work();
    } finally {
      this.#spentMs.set(phase, (this.#spentMs.get(phase) ?? 0) + performance.now() - startedAt);
    }
  }

  spentMs(): Readonly<Partial<Record<Phase, number>>> {
    return Object.fromEntries(
      PHASES.flatMap((phase) => (this.#spentMs.has(phase) ? [[phase, Math.round(this.#spentMs.get(phase)!)]] : [])),
    );
  }
}
