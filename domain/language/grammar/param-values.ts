/** The values of a spec's parameters in one run. */
import type { Json } from './json.ts';

/** `text` replaces placeholders; expressions read `value`. */
export interface ParamValue {
  readonly text: string;
  readonly value: Json;
  /** For a choice: all values that it may have. */
  readonly choices?: readonly string[];
}

/** The values of a spec's parameters in one run. Null: a mistake in the value was reported. */
export type ParamValues = ReadonlyMap<string, ParamValue | null>;
