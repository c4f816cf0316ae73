/** Modules: steps that several skills register as they are. */
import type { ModuleDefinition } from '../../domain/step-machine/definition.ts';
import type { AnySchema } from '../../domain/step-machine/schema.ts';
import type { StepDefinition, StepOptions } from './author-types.ts';
import { checkSteps } from './check-definition.ts';
import { refuse } from './refuse.ts';
import { StepRegistry } from './step-registry.ts';
import type {
  AnyRan,
  AnyTarget,
  Edge,
  EdgesAfter,
  Exits,
  GuaranteedAt,
  Others,
  Ran,
  ResultOf,
  Start,
  StoreAt,
  TargetsIn,
  WritesOf,
} from './store-types.ts';

declare const shape: unique symbol;
/** A module with the types of its steps, in a property that exists only for the compiler. */
export interface TypedModule<TSteps extends AnyRan, TEdges, TEntry extends string> extends ModuleDefinition {
  readonly [shape]?: { readonly steps: TSteps; readonly edges: TEdges; readonly entry: TEntry };
}

/**
 * The sub-stores of a module's steps belong to the skills that register it, and the module does not know their types.
 */
type AnyStores = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

export class ModuleBuilder<TEntry extends string = string, TSteps extends AnyRan = never, TEdges = never> {
  readonly #name: string;
  readonly #entry: TEntry;
  readonly #steps = new StepRegistry();

  constructor({ name, entry }: { readonly name: string; readonly entry: TEntry }) {
    this.#name = name;
    this.#entry = entry;
  }

  /**
   * Adds a step. Where it leaves the module it says `__parent__`.
   * @throws {Error} when `next` is missing, or a reusable action without `mapInput` needs what the response has not
   */
  step<
    const TName extends string,
    TResponse extends AnySchema = never,
    TInput = never,
    TAction = never,
    TSave = never,
    const TNext extends AnyTarget = never,
    const TOther extends string = never,
    const TExpiry extends string = never,
    const TBranch extends string = never,
    const TJoin extends string = never,
  >(
    name: TName,
    config:
      | StepOptions<
          unknown,
          StoreAt<TSteps, TEdges, AnyStores, TName>,
          AnyStores,
          TResponse,
          TInput,
          TAction,
          TSave,
          TNext,
          TOther,
          TExpiry,
          TBranch,
          TJoin
        >
      | StepDefinition<TResponse, TAction, TSave, TNext>,
  ): ModuleBuilder<
    TEntry,
    | Others<TSteps, TName>
    | Ran<TName, ResultOf<TResponse, TAction, TSave>, WritesOf<TSave>, GuaranteedAt<TEdges, TName>>,
    EdgesAfter<
      TSteps,
      TEdges,
      TName,
      Exits<TargetsIn<TNext> | TOther, TExpiry, TBranch, TJoin>,
      GuaranteedAt<TEdges, TName>
    >
  > {
    this.#steps.add(name, config);
    return this as never;
  }

  /** @throws {Error} when name, entry or steps are missing */
  build(): TypedModule<TSteps, TEdges, TEntry> {
    if (!this.#name) refuse(new Error('module: name is required'));
    const steps = this.#steps.frozen();
    checkSteps(`module "${this.#name}"`, this.#entry, steps);
    return Object.freeze({ kind: 'module', name: this.#name, entry: this.#entry, steps });
  }
}

export function module<const TEntry extends string>(config: {
  readonly name: string;
  readonly entry: TEntry;
}): ModuleBuilder<TEntry, never, Edge<TEntry, Start>> {
  return new ModuleBuilder(config);
}
