/**
 * Types of what a step's callbacks know about the store: results that exist on every path to the step, results that
 * exist on some paths, and the parts of sub-stores that are already written.
 *
 * A builder carries two unions. `Ran` is a declared step with its result. `Edge` is a transition to a step that is not
 * declared yet, with the names of all steps that have certainly run before it. Declaring that step removes its edges.
 * The intersection of their sets is what has certainly run. So a chain of any length has one edge at a time. Unions,
 * with names that are looked up only if a callback reads them, keep long skills quick to check. With one object type
 * that grows by a property per step, the compiler would compare all properties each time.
 */
import type { AnySchema, InferOutput } from '../../domain/step-machine/schema.ts';
import type { StepResult } from '../../domain/step-machine/definition.ts';

/** A declared step. `after` are the steps that have certainly run before it, `writes` what its `save` certainly writes. */
export interface Ran<Name extends string, Result, Writes, After extends string> {
  readonly name: Name;
  readonly result: Result;
  readonly writes: Writes;
  readonly after: After;
}
export type AnyRan = Ran<string, unknown, unknown, string>;
/** A transition; to `*` if the compiler cannot see its target. `joined` are branches that have ended as well. */
export interface Edge<To extends string, After extends string, Joined extends string = never> {
  readonly to: To;
  readonly after: After;
  readonly joined: Joined;
}
export type AnyEdge = Edge<string, string, string>;

/** A member of every set of names, so that no set is empty. */
export type Start = '@';

/** Every part of it may be absent; arrays, functions and the like are whole. */
export type DeepPartial<T> = T extends Whole ? T : T extends object ? { [K in keyof T]?: DeepPartial<T[K]> } : T;
export type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends Whole
    ? T
    : T extends object
      ? { readonly [K in keyof T]: DeepReadonly<T[K]> }
      : T;
type Whole =
  | readonly unknown[]
  | ((...args: never[]) => unknown)
  | Date
  | RegExp
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>;

export type InferStores<TSchemas extends Readonly<Record<string, AnySchema>>> = {
  [K in keyof TSchemas]: InferOutput<TSchemas[K]>;
};

/**
 * `store.steps`: last results by step name. No name is in both halves: the compiler would work out the types of all results
 * to see whether they fit together.
 */
export type StepsView<TSteps extends AnyRan, TGuaranteed extends string> = {
  readonly [K in Exclude<TSteps['name'], TGuaranteed>]?: ResultIn<TSteps, K>;
} & {
  readonly [K in TSteps['name'] & TGuaranteed]: ResultIn<TSteps, K>;
} & StepsMethods<TSteps>;
type ResultIn<TSteps, Name> = TSteps extends { readonly name: Name; readonly result: infer Result } ? Result : never;

/**
 * Not an interface, because the compiler does not match interfaces to an index signature such as that in
 * `StepsAccessor`.
 */
type StepsMethods<TSteps extends AnyRan> = {
  /** The results of all visits, oldest first. */
  all<K extends TSteps['name']>(step: K): ResultIn<TSteps, K>[];
  all(step: string): unknown[];
  ran(step: string): boolean;
  readonly history: readonly StepResult[];
};

/** The type of `store` in callbacks. */
export type StoreView<TSteps extends AnyRan, TGuaranteed extends string, TStores> = {
  readonly steps: StepsView<TSteps, TGuaranteed>;
} & (keyof TStores extends never
  ? unknown
  : { readonly [K in keyof TStores]?: DeepReadonly<DeepPartial<TStores[K]>> } & DeepReadonly<
      WrittenBy<TSteps, TGuaranteed>
    >);
/** The intersection of what they write. Each is a function's parameter: a union of writes with `unknown` would be `unknown`. */
type WrittenBy<TSteps, Names> = (
  TSteps extends { readonly name: Names; readonly writes: infer Writes } ? (writes: Writes) => void : never
) extends (writes: infer All) => void
  ? All
  : never;

/** Steps that have run on every path to `Name`. */
export type GuaranteedAt<TEdges, Name extends string> = Common<Extract<TEdges, { readonly to: Name | '*' }>>;
type Common<TEdges> = [TEdges] extends [never]
  ? Start
  : // Each set is one member: distributing over its names would leave nothing in common.
    (TEdges extends AnyEdge ? (member: TEdges['after']) => void : never) extends (
        member: infer Names extends string,
      ) => void
    ? Names | JoinedIn<TEdges>
    : never;
type JoinedIn<TEdges> = TEdges extends { readonly joined: infer Joined extends string } ? Joined : never;

export type StoreAt<TSteps extends AnyRan, TEdges, TStores, Name extends string> = StoreView<
  TSteps,
  GuaranteedAt<TEdges, Name>,
  TStores
>;

declare const none: unique symbol;
/**
 * What is inferred as a step's targets. `none` is never among them but where `next` is `terminal`: a type that does not satisfy
 * its constraint is inferred as the constraint, which must be told from a `string` that an author's function returns.
 */
export type AnyTarget = string | typeof none;
export type TargetsIn<TNext> = typeof none extends TNext ? never : Extract<TNext, string>;

/** Where a step leads: `targets` after its visit, `expiry` instead of it, `branches` and `join` of parallel steps. */
export interface Exits<Targets extends string, Expiry extends string, Branch extends string, Join extends string> {
  readonly targets: Targets;
  readonly expiry: Expiry;
  readonly branch: Branch;
  readonly join: Join;
}
type AnyExits = Exits<string, string, string, string>;

/** The edges that are left when `Name` has been declared: those to others, and its own to steps that have not been. */
export type EdgesAfter<
  TSteps extends AnyRan,
  TEdges,
  Name extends string,
  TExits extends AnyExits,
  Guaranteed extends string,
> =
  | Exclude<TEdges, { readonly to: Name }>
  | EdgesTo<Exclude<TExits['targets'] | TExits['branch'], TSteps['name'] | Name | 'self'>, Guaranteed | Name>
  | EdgesTo<Exclude<TExits['expiry'], TSteps['name'] | Name>, Guaranteed>
  | JoinEdge<TExits['join'], TExits['branch'], Guaranteed | Name>;
type JoinEdge<Join extends string, Branch extends string, After extends string> = [Join] extends [never]
  ? never
  : Edge<Join, After, Branch>;
type EdgesTo<Targets extends string, After extends string> = string extends Targets
  ? Edge<'*', After>
  : Targets extends unknown
    ? Edge<Targets, After>
    : never;

/**
 * The steps that stay when `Name` is declared; one of the same name is replaced. Builders write the union of these with the
 * new step in place: a union that had an alias would carry all earlier ones as the alias's arguments, nested.
 */
export type Others<TSteps extends AnyRan, Name extends string> = Name extends TSteps['name']
  ? Exclude<TSteps, { readonly name: Name }>
  : TSteps;

/** Steps above that `Name` leads to although they rely on steps that have not run on this path. */
export type Misled<TSteps extends AnyRan, Targets extends string, Name extends string, Guaranteed extends string> = [
  Targets & TSteps['name'],
] extends [never]
  ? never
  : MisledAmong<TSteps, Targets, Guaranteed | Name>;
type MisledAmong<TSteps, Targets, Known> = TSteps extends {
  readonly name: infer Above extends Targets;
  readonly after: infer After;
}
  ? [After] extends [Known]
    ? never
    : Above
  : never;

/** A module's edges in the skill that registers it. */
export type RegisteredEdges<MEdges, Next extends string, Guaranteed extends string> =
  MEdges extends Edge<infer To, infer After, infer Joined>
    ? Edge<To extends '__parent__' ? Next : To, After | Guaranteed, Joined>
    : never;
export type RegisteredSteps<MSteps, Guaranteed extends string> =
  MSteps extends Ran<infer Name, infer Result, infer Writes, infer After>
    ? Ran<Name, Result, Writes, After | Guaranteed>
    : never;

/** The result of a visit: what `save` gives as `step`, else what the action gives, else the response. */
export type ResultOf<TResponse, TAction, TSave> = [TSave] extends [never]
  ? OwnResult<TResponse, TAction>
  : TSave extends { readonly step: infer Step }
    ? undefined extends Step
      ? Exclude<Step, undefined> | OwnResult<TResponse, TAction>
      : Step
    : OwnResult<TResponse, TAction>;
type OwnResult<TResponse, TAction> = [TAction] extends [never]
  ? ResponseOf<TResponse>
  : [TAction] extends [void]
    ? ResponseOf<TResponse>
    : undefined extends TAction
      ? Exclude<TAction, undefined> | ResponseOf<TResponse>
      : TAction;

/** A step without a schema gets no answer. */
export type ResponseOf<TResponse> = [TResponse] extends [never]
  ? Readonly<Record<never, never>>
  : TResponse extends AnySchema
    ? InferOutput<TResponse>
    : never;
export type ActionResultOf<TAction> = [TAction] extends [never] ? undefined : TAction;

/** The sub-store keys that every path through `save` writes. */
export type WritesOf<TSave> = [TSave] extends [never]
  ? unknown
  : [Exclude<TSave, object>] extends [never]
    ? { readonly [K in Exclude<keyof TSave, 'step'>]: TSave[K] }
    : unknown;
