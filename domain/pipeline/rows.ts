/**
 * A list that copies only changed parts, so a transition of a run of 2,000 stages costs about as much as one of 100
 * stages.
 * JSON-safe; every row but the last is full.
 */
export type Rows<T> = readonly (readonly T[])[];

const ROW_BITS = 5;
const ROW_MASK = (1 << ROW_BITS) - 1;

export function rowsOf<T>(values: readonly T[]): Rows<T> {
  const rows: T[][] = [];
  for (let from = 0; from < values.length; from += 1 << ROW_BITS) rows.push(values.slice(from, from + (1 << ROW_BITS)));
  return rows;
}

export function rowAt<T>(rows: Rows<T>, index: number): T {
  return rows[index >> ROW_BITS]![index & ROW_MASK]!;
}

export function flattenRows<T>(rows: Rows<T>): readonly T[] {
  return rows.flat();
}

/** Rows that are being changed, on top of rows that do not change. */
export class RowsDraft<T> {
  #rows: Rows<T>;
  readonly #copied = new Set<number>();

  constructor(rows: Rows<T>) {
    this.#rows = rows;
  }

  get rows(): Rows<T> {
    return this.#rows;
  }

  at(index: number): T {
    return rowAt(this.#rows, index);
  }

  set(index: number, value: T): void {
    const row = index >> ROW_BITS;
    if (this.#copied.size === 0) this.#rows = [...this.#rows];
    if (!this.#copied.has(row)) {
      (this.#rows as (readonly T[])[])[row] = [...this.#rows[row]!];
      this.#copied.add(row);
    }
    (this.#rows[row] as T[])[index & ROW_MASK] = value;
  }
}
