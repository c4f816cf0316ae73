/** The builder of skills. At run time it only collects; types decide what a callback may read of the store. */
import type {
  Frontmatter,
  MigrationConfig,
  ObserverMap,
  SkillDefinition,
  SubskillRegistration,
  TopicConfig,
} from '../../domain/step-machine/definition.ts';
import type { AnySchema, InferOutput } from '../../domain/step-machine/schema.ts';
import type { StepDefinition, StepOptions, StepOverrides } from './author-types.ts';
import { checkSkillDefinition } from './check-definition.ts';
import type { TypedModule } from './module-builder.ts';
import { addTopic, DEFAULT_VERSION, type VersionStrategy } from './reference-builder.ts';
import { refuse } from './refuse.ts';
import { eraseTypes } from './step.ts';
import { StepRegistry } from './step-registry.ts';
import type {
  AnyRan,
  AnyTarget,
  Edge,
  EdgesAfter,
  Exits,
  GuaranteedAt,
  InferStores,
  Misled,
  Others,
  Ran,
  RegisteredEdges,
  RegisteredSteps,
  ResultOf,
  Start,
  StoreAt,
  TargetsIn,
  WritesOf,
} from './store-types.ts';
import { resolveParent } from './parent-target.ts';

export type SkillBuilderConfig<
  TParams extends AnySchema = AnySchema,
  TStores extends Readonly<Record<string, AnySchema>> = Readonly<Record<string, AnySchema>>,
> = Frontmatter &
  VersionStrategy & {
    readonly name: string;
    /** The step that a session begins with. */
    readonly entry: string;
    readonly description?: string | undefined;
    /** Words that should make an agent choose the skill; added to the description. */
    readonly triggers?: readonly string[] | undefined;
    /** The text before the preamble, which tells the agent its role in this skill. */
    readonly system?: string | undefined;
    readonly params?: TParams | undefined;
    /** The sub-stores that `save` writes in addition to results, by name. */
    readonly stores?: TStores | undefined;
    readonly observers?: ObserverMap | undefined;
    /** The schema of the skill's final output. */
    readonly finalOutput?: AnySchema | undefined;
    /** Versions whose sessions this one takes over. */
    readonly migrations?: readonly MigrationConfig[] | undefined;
    /**
     * Names of variables of the environment that the skill's callbacks read, e.g. `['GITHUB_TOKEN']`. They see these and those that
     * every program needs (PATH, HOME and the like), over every transport; one that is not set is refused at the start.
     */
    readonly env?: readonly string[] | undefined;
    /** The body of SKILL.md, instead of the generated one. */
    readonly skillMd?: SkillDefinition['skillMd'];
  };

/** The params of a skill that declares no params. */
export type AnyParams = Readonly<Record<string, unknown>>;

/** Replaces the builder's type if `Step` comes after the step it leads to, whose callbacks were typed without it. */
export interface DeclareBefore<Step extends string, Target> {
  readonly 'declare this step': Step;
  readonly 'above the step that it leads to': Target;
}

export class SkillBuilder<
  TParams = AnyParams,
  TSteps extends AnyRan = never,
  TEdges = never,
  TStores = Readonly<Record<never, never>>,
> {
  readonly #config: SkillBuilderConfig;
  readonly #steps = new StepRegistry();
  readonly #subskills = Object.create(null) as Record<string, SubskillRegistration>;
  readonly #topics = Object.create(null) as Record<string, TopicConfig>;

  constructor(config: SkillBuilderConfig) {
    this.#config = config;
  }

  /**
   * Adds a step. Steps are declared in the order in which they run, loops aside: what a callback may read of the store follows
   * from the steps above that lead to it. A step of the same name is replaced.
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
          TParams,
          StoreAt<TSteps, TEdges, TStores, TName>,
          TStores,
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
  ): [
    Misled<
      TSteps,
      Exits<TargetsIn<TNext> | TOther, TExpiry, TBranch, TJoin>['targets'],
      TName,
      GuaranteedAt<TEdges, TName>
    >,
  ] extends [never]
    ? SkillBuilder<
        TParams,
        | Others<TSteps, TName>
        | Ran<TName, ResultOf<TResponse, TAction, TSave>, WritesOf<TSave>, GuaranteedAt<TEdges, TName>>,
        EdgesAfter<
          TSteps,
          TEdges,
          TName,
          Exits<TargetsIn<TNext> | TOther, TExpiry, TBranch, TJoin>,
          GuaranteedAt<TEdges, TName>
        >,
        TStores
      >
    : DeclareBefore<
        TName,
        Misled<
          TSteps,
          Exits<TargetsIn<TNext> | TOther, TExpiry, TBranch, TJoin>['targets'],
          TName,
          GuaranteedAt<TEdges, TName>
        >
      > {
    this.#steps.add(name, config);
    return this as never;
  }

  /** Adds a shared step, with parts of it replaced. */
  extend<
    const TName extends string,
    TBase extends StepDefinition<unknown, unknown, unknown, AnyTarget>,
    TResponse extends AnySchema = BaseOf<TBase>['response'],
    TInput = never,
    TAction = BaseOf<TBase>['action'],
    TSave = BaseOf<TBase>['save'],
    const TNext extends AnyTarget = BaseOf<TBase>['next'],
    const TOther extends string = never,
    const TExpiry extends string = never,
  >(
    name: TName,
    base: TBase,
    overrides: StepOverrides<
      TParams,
      StoreAt<TSteps, TEdges, TStores, TName>,
      TStores,
      TResponse,
      TInput,
      TAction,
      TSave,
      TNext,
      TOther,
      TExpiry
    >,
  ): [
    Misled<
      TSteps,
      Exits<TargetsIn<TNext> | TOther, TExpiry, never, never>['targets'],
      TName,
      GuaranteedAt<TEdges, TName>
    >,
  ] extends [never]
    ? SkillBuilder<
        TParams,
        | Others<TSteps, TName>
        | Ran<TName, ResultOf<TResponse, TAction, TSave>, WritesOf<TSave>, GuaranteedAt<TEdges, TName>>,
        EdgesAfter<
          TSteps,
          TEdges,
          TName,
          Exits<TargetsIn<TNext> | TOther, TExpiry, never, never>,
          GuaranteedAt<TEdges, TName>
        >,
        TStores
      >
    : DeclareBefore<
        TName,
        Misled<
          TSteps,
          Exits<TargetsIn<TNext> | TOther, TExpiry, never, never>['targets'],
          TName,
          GuaranteedAt<TEdges, TName>
        >
      > {
    this.#steps.add(name, base.extend(eraseTypes(overrides)));
    return this as never;
  }

  /** Adds the steps of a module. `next` replaces the target `__parent__` in them. */
  register<MSteps extends AnyRan, MEdges, const MEntry extends string, const TNext extends string>(
    module: TypedModule<MSteps, MEdges, MEntry>,
    { next }: { readonly next: TNext },
  ): SkillBuilder<
    TParams,
    TSteps | RegisteredSteps<MSteps, GuaranteedAt<TEdges, MEntry>>,
    Exclude<TEdges, { readonly to: MEntry }> | RegisteredEdges<MEdges, TNext, GuaranteedAt<TEdges, MEntry>>,
    TStores
  > {
    this.#steps.addAll(module.steps, (config) => resolveParent(config, next));
    return this as never;
  }

  /**
   * Adds a skill that steps reach with `subskill:<name>` and do not come back from, or run with `call: '<name>'` and do.
   * @param options.params  makes the sub-skill's params of the answer that led to it; without it they are `{}`
   */
  subskill<TResponse = unknown>(
    name: string,
    definition: SkillDefinition,
    {
      params,
    }: { readonly params?: (response: TResponse, store: StoreAt<TSteps, never, TStores, string>) => unknown } = {},
  ): this {
    if (Object.hasOwn(this.#subskills, name)) {
      refuse(
        new Error(
          `skill "${this.#config.name}": subskill "${name}" is registered twice. Give one of them another name.`,
        ),
      );
      return this;
    }
    const paramsMap = params as ((response: never, store: never) => unknown) | undefined;
    this.#subskills[name] = Object.freeze({ definition, ...(paramsMap && { paramsMap }) });
    return this;
  }

  /** Adds a text that steps reach with `topic:<name>`, and agents by its name. */
  topic(name: string, config: TopicConfig): this {
    addTopic(`skill "${this.#config.name}"`, this.#topics, name, config);
    return this;
  }

  /** @throws {Error} on an author's mistake, e.g. a target that does not exist */
  build(): SkillDefinition {
    const { stores, triggers, description, version = DEFAULT_VERSION, resolveVersion = false, ...rest } = this.#config;
    const described = describe(description, triggers);
    const definition: SkillDefinition = {
      ...rest,
      kind: 'skill',
      version,
      resolveVersion,
      ...(described === undefined ? {} : { description: described }),
      ...(triggers === undefined ? {} : { triggers }),
      steps: this.#steps.frozen(),
      ...omitEmpty('stores', stores),
      ...omitEmpty('subskills', this.#subskills),
      ...omitEmpty('topics', this.#topics),
    };
    checkSkillDefinition(definition);
    return Object.freeze(definition);
  }
}

/** The types of a shared step that an extension takes over where it says nothing. */
type BaseOf<TBase> =
  TBase extends StepDefinition<infer R, infer A, infer S, infer N>
    ? { readonly response: R extends AnySchema ? R : never; readonly action: A; readonly save: S; readonly next: N }
    : never;

/**
 * Begins a skill.
 * @example
 * ```ts
 * export default skill({ name: 'greet', entry: 'ask' })
 *   .step('ask', { prompt: 'Ask for the name.', response: z.object({ name: z.string() }), next: 'greet' })
 *   .step('greet', { prompt: ({ store }) => `Greet ${store.steps.ask.name}.`, next: terminal })
 *   .build();
 * ```
 */
export function skill<
  TParams extends AnySchema = never,
  TStoreSchemas extends Readonly<Record<string, AnySchema>> = Readonly<Record<never, never>>,
  const TEntry extends string = string,
>(
  config: SkillBuilderConfig<TParams, TStoreSchemas> & { readonly entry: TEntry },
): SkillBuilder<
  [TParams] extends [never] ? AnyParams : InferOutput<TParams>,
  never,
  Edge<TEntry, Start>,
  InferStores<TStoreSchemas>
> {
  return new SkillBuilder(config);
}

/** The text by which agents choose a skill: the description, then the triggers. */
function describe(description: string | undefined, triggers: readonly string[] = []): string | undefined {
  if (triggers.length === 0) return description;
  const keywords = `Trigger keywords: ${triggers.join(', ')}`;
  if (!description) return keywords;
  return `${description}${description.endsWith('.') ? ' ' : '. '}${keywords}`;
}

function omitEmpty<K extends string, T extends object>(key: K, value: T | undefined): { readonly [P in K]?: T } {
  return value === undefined || Object.keys(value).length === 0
    ? {}
    : ({ [key]: Object.freeze({ ...value }) } as { readonly [P in K]: T });
}
