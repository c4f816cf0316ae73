/**
 * A table of fingerprints of files in two arrays, because a watched folder may have 100,000 files: 9 bytes for each
 * place in the table, and no text of a path.
 */

const FIRST_PLACES = 1_024;

/** 0 is an empty place of the table. */
export type Mark = 1 | 2;

export class Fingerprints {
  #keys = new BigUint64Array(FIRST_PLACES);
  #marks = new Uint8Array(FIRST_PLACES);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** @returns 0 if the table does not have the fingerprint */
  read(fingerprint: bigint): Mark | 0 {
    return this.#marks[this.#locate(fingerprint)]! as Mark | 0;
  }

  write(fingerprint: bigint, mark: Mark): void {
    // A table that is at most half full finds each place in few steps.
    if (this.#size * 2 >= this.#keys.length) this.#grow();
    const at = this.#locate(fingerprint);
    if (this.#marks[at] === 0) this.#size += 1;
    this.#keys[at] = fingerprint;
    this.#marks[at] = mark;
  }

  #locate(fingerprint: bigint): number {
    const keys = this.#keys;
    const last = keys.length - 1;
    let at = Number(fingerprint & BigInt(last));
    while (this.#marks[at] !== 0 && keys[at] !== fingerprint) at = (at + 1) & last;
    return at;
  }

  #grow(): void {
    const [keys, marks] = [this.#keys, this.#marks];
    this.#keys = new BigUint64Array(keys.length * 2);
    this.#marks = new Uint8Array(marks.length * 2);
    this.#size = 0;
    for (const [index, mark] of marks.entries()) if (mark !== 0) this.write(keys[index]!, mark as Mark);
  }
}
