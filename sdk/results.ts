/** What a run takes and gives, by the types of its definition. */
import type { ApprovalAnswer } from '../domain/run/approval-answer.ts';
import type { Approval, FanOut, Param, ParamValue, Wait } from './definition.ts';

export type Params = Readonly<Record<string, Param>>;

/** No parameters. */
export type NoParams = Readonly<Record<never, Param>>;

/** What a run may give for a parameter. Texts take numbers and booleans as well, as `--param` does. */
type ParamInput<T> = T extends { readonly choices: readonly (infer C)[] }
  ? C
  : T extends { readonly type: 'number' } | { readonly min: number } | { readonly max: number }
    ? number
    : T extends { readonly type: 'boolean' }
      ? boolean
      : T extends { readonly type: 'list' } | { readonly default: readonly unknown[] } | readonly unknown[]
        ? readonly unknown[]
        : string | number | boolean;

type RequiredNames<P> = {
  [K in keyof P]: P[K] extends ParamValue ? never : P[K] extends { readonly default: ParamValue } ? never : K;
}[keyof P];

/** Values of parameters by name: those without a default are demanded. */
export type RunParams<P extends Params> = string extends keyof P
  ? Readonly<Record<string, ParamValue>>
  : { readonly [K in RequiredNames<P>]: ParamInput<P[K]> } & {
      readonly [K in Exclude<keyof P, RequiredNames<P>>]?: ParamInput<P[K]>;
    };

/** What a fan-out leaves: the outputs of its boxes, in their order. */
export type Merged = readonly { readonly name: string; readonly output: unknown }[];

/** What one item of a stage with `forEach` leaves. */
export interface ItemResult<R = unknown> {
  readonly item: unknown;
  /** JSON, or a text where it was none; absent where the item failed. */
  readonly output?: R;
  readonly failure?: { readonly code: string; readonly message: string };
}

/** Of a stage with `forEach`. Without a schema an output that happens to be JSON, such as `42`, is a value and no text. */
export type ItemResults<R> = readonly ItemResult<string extends R ? unknown : R>[];

/** What the run's result is when a stage of this type is the last one; `Before` where it has no output itself. */
export type ResultOf<S, Before = unknown> = S extends FanOut
  ? Merged
  : S extends Approval
    ? ApprovalAnswer
    : S extends Wait
      ? Before
      : S extends { readonly '~result'?: infer R }
        ? R
        : unknown;
