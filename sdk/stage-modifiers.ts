/** Conditions and lists around a stage, for readers who expect them before the stage. */
import { type Items, writeItems } from './stages/items.ts';
import type { Approval, Box, Outputs, Part, SpecObject, Step, Wait } from './stages/stage.ts';
import { FOR_EACH_OPTIONS } from './known-options.ts';
import { checkOptions, nameOf } from './options.ts';
import { reportPlace } from './places.ts';
import type { ItemResults } from './results.ts';

type Conditional = Step | Box | Approval | Wait | Part;

/**
 * Makes the stage run only if the condition holds; otherwise the stage is passed. The same as its option `when`.
 * @param condition  in CEL, such as `params.env == "prod"`
 */
export function when<S extends Conditional>(condition: string, stage: S): S {
  nameOf('`when`', stage);
  const spec = extendSpec(stage, 'when', { when: condition });
  reportPlace(spec, when);
  return { ...stage, spec };
}

export interface ForEachOptions {
  /** Concurrent items; default: the definition's `maxParallel`. */
  readonly maxParallel?: number;
  /** Whether the other items end once more items have failed than `allowFailures`. Default: false. */
  readonly failFast?: boolean;
  /** How many items may fail before the stage fails. Default: 0. */
  readonly allowFailures?: number;
}

/** A stage that runs once for each item of a list; its output is the list of results. */
export type Each<S> =
  S extends Step<infer O, infer R>
    ? Step<O, ItemResults<R>>
    : S extends Box<infer O, infer R>
      ? Box<O, ItemResults<R>>
      : S extends Part
        ? Part
        : never;

/**
 * Runs the command of the stage, or the part, once for each item of a list, each time in its own VMs. The same as its
 * option `forEach`.
 *
 * @example
 * ```ts
 * const cities = box('cities', ['printf', '["Oslo", "Rome"]']);
 * const greet = forEach(items(cities), box('greet', ['sh', '-c', 'echo "hello $VOIDBOX_ITEM"']), { maxParallel: 4 });
 * ```
 */
export function forEach<S extends Step<Outputs> | Box<Outputs> | Part>(
  list: Items,
  stage: S,
  options: ForEachOptions = {},
): Each<S> {
  const what = `\`forEach\` around "${nameOf('`forEach`', stage)}"`;
  checkOptions(`options of ${what}`, options, FOR_EACH_OPTIONS);
  const { maxParallel, failFast, allowFailures } = options;
  const spec = extendSpec(stage, 'for_each', {
    for_each: writeItems(list, `the list of ${what}`),
    max_parallel: maxParallel,
    fail_fast: failFast,
    allow_failures: allowFailures,
  });
  reportPlace(spec, forEach);
  return { ...stage, spec } as unknown as Each<S>;
}

/** The combination of two conditions or lists is nowhere in the source, and the later one must not silently win. */
function extendSpec({ name, spec }: Conditional, key: 'when' | 'for_each', more: SpecObject): SpecObject {
  if (spec[key] !== undefined)
    throw new TypeError(`the stage "${name}" already has \`${key === 'when' ? key : 'forEach'}\`: write it once`);
  return { ...spec, ...more };
}
