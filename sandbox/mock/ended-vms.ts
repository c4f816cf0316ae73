/**
 * Remembers ended mock VMs, whose keys must never be launched again. An entry is removed at the same age as the
 * keeper's record of a stopped VM, so that a worker's memory does not grow with its runs.
 */

/** The same time as in `voidbox-vm sweep`; @see docs/reference/keeper.md */
export const REMEMBERED_MS = 15 * 60_000;

export class EndedVms {
  /**
   * The reason why each VM ended, oldest first. The reasons are texts, because an error keeps its call stack in memory.
   */
  readonly #entries = new Map<string, { readonly message: string; readonly atMs: number }>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  get size(): number {
    return this.#entries.size;
  }

  add(name: string, message: string): void {
    const oldestMs = this.#now() - REMEMBERED_MS;
    for (const [known, { atMs }] of this.#entries) {
      if (atMs > oldestMs) break;
      this.#entries.delete(known);
    }
    this.#entries.set(name, { message, atMs: this.#now() });
  }

  /** Returns the reason why the VM ended; null if it has not ended. */
  find(name: string): string | null {
    return this.#entries.get(name)?.message ?? null;
  }
}
