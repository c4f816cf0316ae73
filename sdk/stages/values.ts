/** Values that a run gets: parameters, variables and expressions. */
import type { PARAM_TYPES } from '../../domain/language/grammar/values.ts';

/** An empty text means the variable of that name on the host: write `fromHost`. */
export type Env = Readonly<Record<string, string | number | boolean>>;

/** Takes the host's variable of the same name; it is empty if the host does not set it, unless `secrets` demand it. Its value is never stored. */
export const fromHost = '';

/** Refers to a parameter, in a program, an argument or a variable: `` `hello ${param('name')}` ``. */
export function param(name: string): string {
  return `\${{ params.${name} }}`;
}

/**
 * A value that is known when the stage starts, in an argument, a variable, a message or a prompt:
 * `` `--tag=${expression('stages.build.json.tag')}` ``. With `forEach`, `expression('item')` is the item.
 * @param source  in CEL, as a condition; it names a stage or the item
 */
export function expression(source: string): string {
  return `\${{ ${source} }}`;
}

export type ParamType = (typeof PARAM_TYPES)[number];

/** A list holds any JSON. */
export type ParamValue = string | number | boolean | readonly unknown[];

/** A parameter's default, or its settings; without a default each run must give a value. */
export type Param =
  | ParamValue
  | {
      /** Default: `choice` with `choices`, `number` with `min` or `max`, `list` with a list as its default, else `text`. */
      readonly type?: ParamType;
      readonly default?: ParamValue;
      readonly description?: string;
      /** Limit of a number. */
      readonly min?: number;
      readonly max?: number;
      readonly choices?: readonly (string | number)[];
    };
