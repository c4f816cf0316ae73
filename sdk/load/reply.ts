/** The reply of the process that runs a definition's code. */

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
      /** The call that made the definition. */
      readonly place: Place | null;
      /** The calls that made its steps or boxes, in the order of `source`. */
      readonly stages: readonly (Place | null)[];
    }
  | {
      readonly kind: 'unusable';
      readonly message: string;
      readonly remedy: string;
      /** Null: no line is the cause. */
      readonly place: Place | null;
    };

/** The limit of a reply that is read. It is larger than a spec may be. */
export const REPLY_LIMIT_BYTES = 16 * 1024 * 1024;
