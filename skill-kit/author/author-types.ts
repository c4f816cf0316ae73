/**
 * The types of a definition that authors write: the erased shapes of domain/step-machine/definition.ts with the types
 * of one skill.
 */
import type {
  ActBuilder,
  ActionCall,
  ActionRetry,
  Handshake,
  HumanInput,
  PromptReturn,
  ReferenceLoader,
  StepConfig as ErasedStepConfig,
  StoreAccessor,
  SystemBuilder,
  Terminal,
} from '../../domain/step-machine/definition.ts';
import type { AnySchema, InferInput, InferOutput } from '../../domain/step-machine/schema.ts';
import type { ActionResultOf, AnyTarget, DeepPartial, ResponseOf } from './store-types.ts';

export interface PromptContext<TStore = StoreAccessor, TParams = unknown> {
  readonly store: TStore;
  readonly params: TParams;
  readonly refs: ReferenceLoader;
  /** Completed visits of this step: 0 the first time. */
  readonly attempts: number;
  readonly host: Handshake;
  readonly act: ActBuilder;
  readonly system: SystemBuilder;
}
export type PromptFn<TStore = StoreAccessor, TParams = unknown> = (
  context: PromptContext<TStore, TParams>,
) => PromptReturn;

export interface TransitionContext<TResponse = unknown, TAction = unknown, TStore = StoreAccessor, TParams = unknown> {
  readonly response: TResponse;
  /** Completed visits of this step, this one included: 1 the first time. */
  readonly attempts: number;
  readonly actionResult: TAction;
  readonly params: TParams;
  readonly store: TStore;
}
export type TransitionFn<TResponse = unknown, TAction = unknown, TStore = StoreAccessor, TParams = unknown> = (
  context: TransitionContext<TResponse, TAction, TStore, TParams>,
) => string;

export interface SaveContext<TResponse = unknown, TAction = unknown, TStore = StoreAccessor, TParams = unknown> {
  readonly response: TResponse;
  readonly actionResult: TAction;
  readonly store: TStore;
  readonly params: TParams;
}
/** `signal` is a real AbortSignal: hand it on to whatever the action waits for. */
export interface ActionCallContext extends Omit<ActionCall, 'signal'> {
  readonly signal: AbortSignal;
}
export interface ActionContext<
  TResponse = unknown,
  TStore = StoreAccessor,
  TParams = unknown,
> extends ActionCallContext {
  readonly response: TResponse;
  readonly store: TStore;
  readonly params: TParams;
}

/** The options of `action()`. */
export interface ActionConfig<TInput extends AnySchema = AnySchema, TOutput extends AnySchema = AnySchema> {
  readonly name: string;
  readonly input: TInput;
  readonly output: TOutput;
  run(
    context: { readonly input: InferOutput<TInput> } & ActionCallContext,
  ): Promise<InferInput<TOutput>> | InferInput<TOutput>;
}
export interface ActionDefinition<
  TInput extends AnySchema = AnySchema,
  TOutput extends AnySchema = AnySchema,
> extends ActionConfig<TInput, TOutput> {
  readonly kind: 'action';
}
export type InferActionResult<TAction> =
  TAction extends ActionDefinition<infer _Input, infer TOutput>
    ? InferOutput<TOutput>
    : TAction extends (...args: never[]) => infer Result
      ? Awaited<Result>
      : never;

/**
 * The values that `save` may return. The type forbids keys that are not sub-stores by name, because a generic return
 * type would accept them.
 */
export type SaveReturn<TStores, TSave = never> =
  | (object & { readonly step?: unknown } & { readonly [K in keyof TStores]?: DeepPartial<TStores[K]> } & {
      readonly [K in Exclude<KeysOf<Extract<TSave, object>>, keyof TStores | 'step'>]: never;
    })
  | null
  | undefined
  | void;
type KeysOf<Union> = Union extends unknown ? keyof Union : never;

type Next<TResponse, TAction, TStore, TParams, TNext extends AnyTarget> =
  | TNext
  | ((context: TransitionContext<TResponse, TAction, TStore, TParams>) => TNext)
  | readonly {
      readonly to: TNext;
      readonly when?: (context: TransitionContext<TResponse, TAction, TStore, TParams>) => boolean;
    }[]
  | Terminal;

/**
 * The parts that all steps have. Each type is a separate parameter: TypeScript does not infer what `save` and `next`
 * return if the parameters are members of one type.
 */
export interface StepBody<
  TParams,
  TStore,
  TStores,
  TResponse,
  TInput,
  TAction,
  TSave,
  TOther extends string,
  TExpiry extends string,
> {
  /** Inline, or one made by `action()`. */
  readonly action?:
    | ((context: ActionContext<ResponseOf<TResponse>, TStore, TParams>) => Promise<TAction> | TAction)
    | {
        readonly run: {
          readonly kind: 'action';
          readonly input: StandardInput<TInput>;
          readonly output: StandardOutput<TAction>;
        };
        readonly mapInput?: (context: {
          readonly response: ResponseOf<TResponse>;
          readonly store: TStore;
          readonly params: TParams;
        }) => NoInfer<TInput>;
      };
  /** Synchronous. `step` becomes the visit's result; every other key is merged into that sub-store. */
  readonly save?: (
    context: SaveContext<ResponseOf<TResponse>, ActionResultOf<TAction>, TStore, TParams>,
  ) => TSave & SaveReturn<TStores, TSave>;
  /** The most visits of this step; by default 10 for steps in a cycle. */
  readonly maxVisits?: number;
  /** Where to go instead of visiting this step once more. */
  readonly onMaxVisits?: TOther;
  /** How many answers in one visit may fail the schema before the session fails; default 10. */
  readonly maxInvalid?: number;
  readonly retry?: ActionRetry;
  /** For each attempt of the action. */
  readonly timeoutMs?: number;
  /** The step is passed when the time is over. */
  readonly wait?: {
    readonly durationMs:
      | number
      | ((context: TransitionContext<ResponseOf<TResponse>, ActionResultOf<TAction>, TStore, TParams>) => number);
  };
  /** A person answers, in the time given. */
  readonly human?: Omit<HumanInput, 'onExpiry'> & { readonly onExpiry?: TExpiry };
  /** Runs a sub-skill and comes back: its final output is this step's `actionResult`. */
  readonly call?: string;
}
interface StandardInput<TInput> extends AnySchema {
  readonly '~standard': AnySchema['~standard'] & {
    readonly types?: { readonly input: TInput; readonly output: unknown } | undefined;
  };
}
interface StandardOutput<TOutput> extends AnySchema {
  readonly '~standard': AnySchema['~standard'] & {
    readonly types?: { readonly input: unknown; readonly output: TOutput } | undefined;
  };
}

type Prompt<TStore, TParams> = PromptReturn | PromptFn<TStore, TParams>;

interface AskingStep<
  TParams,
  TStore,
  TStores,
  TResponse,
  TInput,
  TAction,
  TSave,
  TNext extends AnyTarget,
  TOther extends string,
  TExpiry extends string,
> extends StepBody<TParams, TStore, TStores, TResponse, TInput, TAction, TSave, TOther, TExpiry> {
  readonly prompt: Prompt<TStore, TParams>;
  readonly response?: TResponse;
  readonly parallel?: undefined;
  readonly next: Next<ResponseOf<TResponse>, ActionResultOf<TAction>, TStore, TParams, TNext>;
}
/** A step without a prompt gets no answer, so its callbacks get no response. */
interface SilentStep<
  TParams,
  TStore,
  TStores,
  TResponse,
  TInput,
  TAction,
  TSave,
  TNext extends AnyTarget,
  TOther extends string,
  TExpiry extends string,
> extends StepBody<TParams, TStore, TStores, TResponse, TInput, TAction, TSave, TOther, TExpiry> {
  readonly prompt?: undefined;
  readonly response?: undefined;
  readonly parallel?: undefined;
  readonly next: Next<ResponseOf<TResponse>, ActionResultOf<TAction>, TStore, TParams, TNext>;
}
/** Goes on with all its branches at once, and with `join` when each has reached it. */
interface ForkingStep<
  TParams,
  TStore,
  TStores,
  TResponse,
  TInput,
  TAction,
  TSave,
  TOther extends string,
  TExpiry extends string,
  TBranch extends string,
  TJoin extends string,
> extends StepBody<TParams, TStore, TStores, TResponse, TInput, TAction, TSave, TOther, TExpiry> {
  readonly prompt?: undefined;
  readonly response?: undefined;
  readonly next?: undefined;
  readonly parallel: { readonly branches: readonly TBranch[]; readonly join: TJoin };
}

/** The options of `.step()`, with the types that are inferred from them. */
export type StepOptions<
  TParams,
  TStore,
  TStores,
  TResponse,
  TInput,
  TAction,
  TSave,
  TNext extends AnyTarget,
  TOther extends string,
  TExpiry extends string,
  TBranch extends string,
  TJoin extends string,
> =
  | AskingStep<TParams, TStore, TStores, TResponse, TInput, TAction, TSave, TNext, TOther, TExpiry>
  | SilentStep<TParams, TStore, TStores, TResponse, TInput, TAction, TSave, TNext, TOther, TExpiry>
  | ForkingStep<TParams, TStore, TStores, TResponse, TInput, TAction, TSave, TOther, TExpiry, TBranch, TJoin>;

/** The options of a shared step that `.extend()` overrides. */
export interface StepOverrides<
  TParams,
  TStore,
  TStores,
  TResponse,
  TInput,
  TAction,
  TSave,
  TNext extends AnyTarget,
  TOther extends string,
  TExpiry extends string,
> extends StepBody<TParams, TStore, TStores, TResponse, TInput, TAction, TSave, TOther, TExpiry> {
  readonly prompt?: Prompt<TStore, TParams>;
  readonly response?: TResponse;
  readonly next?: Next<ResponseOf<TResponse>, ActionResultOf<TAction>, TStore, TParams, TNext>;
}

declare const shape: unique symbol;
/** A step made by `step()`. A property that exists only for the compiler carries its types. */
export interface StepDefinition<
  TResponse = unknown,
  TAction = unknown,
  TSave = unknown,
  TNext extends AnyTarget = string,
> {
  readonly kind: 'step';
  readonly config: ErasedStepConfig;
  extend(overrides: Partial<ErasedStepConfig>): StepDefinition<TResponse, TAction, TSave, TNext>;
  readonly [shape]?: {
    readonly response: TResponse;
    readonly action: TAction;
    readonly save: TSave;
    readonly next: TNext;
  };
}
