/** Values of a spec's parameters in one run. */
import type { Json } from './json.ts';

/** `text` is what placeholders become; `value` is what expressions read. */
export interface ParamValue {
  readonly text: string;
  readonly value: Json;
  /** Of a choice: all that it may be. */
  readonly choices?: readonly string[];
}

/** The values of a spec's parameters in one run. A null value was reported. */
export type ParamValues = ReadonlyMap<string, ParamValue | null>;
