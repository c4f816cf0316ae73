/**
 * Which mock VMs have ended: their keys are never launched again. An entry is as old as the keeper's record of a stopped
 * VM gets, then it goes, so that a worker's memory does not grow with the runs that it has served.
 */

/** As `voidbox-vm sweep` keeps it; @see docs/reference/keeper.md */
export const REMEMBERED_MS = 15 * 60_000;

export class EndedVms {
  /** Why each ended, oldest first. Texts, because an error holds on to the call that made it. */
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

  /** Why the VM ended; null for one that has not. */
  find(name: string): string | null {
    return this.#entries.get(name)?.message ?? null;
  }
}
