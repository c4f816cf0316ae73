/**
 * The ready stages, in the plan's order. A transition copies the list once, because one event may make thousands ready.
 */
export class ReadyStages {
  #stages: readonly number[];
  #copied: number[] | null = null;

  /** @param stages  in order; this list is not changed */
  constructor(stages: readonly number[]) {
    this.#stages = stages;
  }

  get stages(): readonly number[] {
    return this.#stages;
  }

  add(stage: number): void {
    this.#own().splice(this.#position(stage), 0, stage);
  }

  /** @param stage  a ready stage */
  remove(stage: number): void {
    this.#own().splice(this.#position(stage), 1);
  }

  /**
   * Removes the stages that start, in order and while there is room; the others keep their places.
   * @param start  false: this one does not start yet
   */
  startWhile(hasRoom: () => boolean, start: (stage: number) => boolean): void {
    let started = 0;
    let next = 0;
    for (; next < this.#stages.length && hasRoom(); next += 1) {
      const stage = this.#stages[next]!;
      if (start(stage)) started += 1;
      else if (started > 0) this.#own()[next - started] = stage;
    }
    if (started > 0) this.#own().splice(next - started, started);
  }

  #own(): number[] {
    this.#copied ??= this.#stages.slice();
    this.#stages = this.#copied;
    return this.#copied;
  }

  /** The index of a stage, or the index where it would be inserted. */
  #position(stage: number): number {
    let low = 0;
    let high = this.#stages.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#stages[middle]! < stage) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
