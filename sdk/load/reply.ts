/** What the process that runs a definition's code says of it. */

export interface Place {
  /** Full path. */
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** From 1. */
  readonly column: number;
}

export type Reply =
  | {
      readonly kind: 'definition';
      /** The spec as JSON. */
      readonly source: string;
      /** Of the call that made the definition. */
      readonly place: Place | null;
      /** Of the calls that made its steps or boxes, in the order of `source`. */
      readonly stages: readonly (Place | null)[];
    }
  | {
      readonly kind: 'unusable';
      readonly message: string;
      readonly remedy: string;
      /** Null: it belongs to no line. */
      readonly place: Place | null;
    };

/** The most that is read of a reply, and more than a spec may have. */
export const REPLY_LIMIT_BYTES = 16 * 1024 * 1024;
