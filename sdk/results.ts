/** Parameters and results of a run, as types of its definition. */
import type { ApprovalAnswer } from '../domain/run/approval-answer.ts';
import type { Approval, FanOut, Wait } from './stages/stage.ts';
import type { Param, ParamValue } from './stages/values.ts';

export type Params = Readonly<Record<string, Param>>;

/** No parameters. */
export type NoParams = Readonly<Record<never, Param>>;

/** The value that a run may give for a parameter. A text parameter accepts numbers and booleans, too, as `--param` does. */
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

/** Values of parameters by name: a parameter without a default is required. */
export type RunParams<P extends Params> = string extends keyof P
  ? Readonly<Record<string, ParamValue>>
  : { readonly [K in RequiredNames<P>]: ParamInput<P[K]> } & {
      readonly [K in Exclude<keyof P, RequiredNames<P>>]?: ParamInput<P[K]>;
    };

/** The result of a fan-out: the outputs of its boxes, in their order. */
export type Merged = readonly { readonly name: string; readonly output: unknown }[];

/** The result of one item of a stage with `forEach`. */
export interface ItemResult<R = unknown> {
  readonly item: unknown;
  /** JSON, or a text if the output is not JSON; absent if the item failed. */
  readonly output?: R;
  readonly failure?: { readonly code: string; readonly message: string };
}

/** The results of a stage with `forEach`. Without a schema, an output that happens to be JSON, such as `42`, is a value, not a text. */
export type ItemResults<R> = readonly ItemResult<string extends R ? unknown : R>[];

/** The run's result if a stage of this type is the last one; `Before` if the stage has no output itself. */
export type ResultOf<S, Before = unknown> = S extends FanOut
  ? Merged
  : S extends Approval
    ? ApprovalAnswer
    : S extends Wait
      ? Before
      : S extends { readonly '~result'?: infer R }
        ? R
        : unknown;
