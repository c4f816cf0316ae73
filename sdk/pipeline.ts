/** A pipeline as a chain, for authors who prefer a chain to a list. */
import {
  type Definition,
  definePipeline,
  type PipelineOptions,
  type RunArguments,
  stagesIn,
  registerReplacement,
} from './define.ts';
import { fanOut, loop } from './stages/box-groups.ts';
import type { Items } from './stages/items.ts';
import type { Approval, Box, LoopOptions, Outputs, Part, Wait } from './stages/stage.ts';
import { reportPlace } from './places.ts';
import type { ItemResults, Merged, NoParams, Params, ResultOf } from './results.ts';
import type { RunResult } from './run.ts';
import { forEach, type ForEachOptions } from './stage-modifiers.ts';

export type ChainOptions<P extends Params> = Omit<PipelineOptions<P>, 'name' | 'stages' | 'aside' | 'output'>;

/**
 * A pipeline, stage after stage. Each call returns a new one, so that pipelines may share their beginning.
 *
 * @example
 * ```ts
 * import { box, items, param, Pipeline } from 'voidbox';
 *
 * const list = box('list', ['echo', `[1, 2, ${param('last')}]`]);
 * const pipeline = Pipeline.named('squares', { params: { last: { type: 'number', default: 3 } } })
 *   .pipe(list)
 *   .forEach(items(list), box('square', ['sh', '-c', 'echo $((VOIDBOX_ITEM * VOIDBOX_ITEM))']));
 *
 * console.log(pipeline.compile().plan?.stages.length); // 2
 * ```
 */
export class Pipeline<P extends Params = NoParams, R = null> implements Definition<P, R> {
  readonly #options: PipelineOptions<P>;
  readonly #definition: Definition<P, R>;

  private constructor(options: PipelineOptions<P>, link: (...args: never[]) => unknown) {
    this.#options = options;
    this.#definition = definePipeline(options) as Definition<P, R>;
    registerReplacement(this, this.#definition);
    reportPlace(this, link, stagesIn(this));
  }

  /** Makes a pipeline without stages. */
  static named<const P extends Params = NoParams>(name: string, options?: ChainOptions<P>): Pipeline<P> {
    return new Pipeline<P>({ ...options, name, stages: [] }, Pipeline.named);
  }

  /** Adds this stage. It finds the output of the stage before as `/workspace/input.json`. */
  pipe<S extends Box | Approval | Wait | Part>(stage: S): Pipeline<P, ResultOf<S, R>> {
    return this.#with(stage, this.pipe);
  }

  /** Adds stages that run side by side; the next stage finds their outputs merged. */
  fanOut(boxes: readonly (Box | Approval | Wait | Part)[], options?: { readonly name?: string }): Pipeline<P, Merged> {
    return this.#with(fanOut(boxes, options), this.fanOut);
  }

  /** Adds this stage once for each item of a list; the next one finds the list of results. */
  forEach<Item>(
    list: Items,
    stage: Box<Outputs, Item> | Part,
    options?: ForEachOptions,
  ): Pipeline<P, ItemResults<Item>> {
    return this.#with(forEach<Box<Outputs, Item> | Part>(list, stage, options), this.forEach);
  }

  /**
   * Adds stages that run one after the other, again and again until a condition holds. The input of the next stage is
   * the output of the last visit.
   */
  loop(name: string, boxes: readonly (Box | Approval | Wait | Part)[], options: LoopOptions): Pipeline<P, unknown> {
    return this.#with(loop(name, boxes, options), this.loop);
  }

  /** Adds a box with `onFailure` or `finally`, which has no place in the order. */
  aside(stage: Box | Approval | Wait | Part): Pipeline<P, R> {
    return new Pipeline<P, R>({ ...this.#options, aside: [...(this.#options.aside ?? []), stage] }, this.aside);
  }

  /** Makes the output of this stage the result, instead of the output of the last stage. */
  returns<S extends Box | Approval | Part>(stage: S): Pipeline<P, ResultOf<S>> {
    return new Pipeline<P, ResultOf<S>>({ ...this.#options, output: stage }, this.returns);
  }

  get name(): string {
    return this.#definition.name;
  }

  /** See `Definition`. */
  get source(): string {
    return this.#definition.source;
  }

  /** See `Definition`. */
  compile(...options: Parameters<Definition['compile']>): ReturnType<Definition['compile']> {
    return this.#definition.compile(...options);
  }

  /** See `Definition`. */
  async run(...options: RunArguments<P>): Promise<RunResult<R>> {
    return await this.#definition.run(...options);
  }

  #with<Next>(stage: PipelineOptions['stages'][number], link: (...args: never[]) => unknown): Pipeline<P, Next> {
    return new Pipeline<P, Next>({ ...this.#options, stages: [...this.#options.stages, stage] }, link);
  }
}
