/**
 * The types with which a format of records is described as data. Its readers are generated from the description:
 * - the check of stored records (`store/shapes/stored-shape.ts`)
 * - the check of plans from clients (`domain/language/plan-schema.ts`)
 * - a schema for OpenAPI (`test/rig/openapi/plan-openapi.ts`)
 *
 * The compiler compares a description with the types: `DifferentKeys`.
 */
import type { JsonRule, ListRule, NumberRule, ObjectRule, TextRule } from './rule-names.ts';

export type Node =
  | { readonly is: 'text'; readonly rule: TextRule }
  /** A whole number from 0. */
  | { readonly is: 'count'; readonly rule: NumberRule }
  | { readonly is: 'number'; readonly rule: NumberRule }
  | { readonly is: 'flag' }
  | { readonly is: 'exactly'; readonly value: string | number | true }
  | { readonly is: 'word'; readonly words: readonly string[] }
  /** JSON of any shape. */
  | { readonly is: 'json'; readonly rule: JsonRule }
  | { readonly is: 'list'; readonly of: Node; readonly limits: ListLimits }
  /** An object with any keys. */
  | { readonly is: 'map'; readonly key: TextRule; readonly of: Node }
  | ObjectNode
  /** An object whose `kind` decides its other fields. */
  | { readonly is: 'kinds'; readonly kinds: Readonly<Record<string, ObjectNode>> }
  | { readonly is: 'either'; readonly first: Node; readonly second: Node }
  | { readonly is: 'nullable'; readonly of: Node }
  /** The field may be absent. */
  | { readonly is: 'optional'; readonly of: Node };

export interface ObjectNode {
  readonly is: 'object';
  readonly fields: Readonly<Record<string, Node>>;
  readonly rule: ObjectRule | null;
}

/** Only readers of values from clients apply these limits and rules. */
export interface ListLimits {
  readonly least?: number;
  readonly most?: number;
  readonly rule?: ListRule;
}

declare const TYPE: unique symbol;

/** A description of values of the type `T`. */
export type Shape<T, N = Node> = N & { readonly [TYPE]?: T };

export type TypeOf<S> = S extends { readonly [TYPE]?: infer T } ? Exclude<T, undefined> : never;

type OptionalNode = { readonly is: 'optional' };

type ObjectOf<F> = {
  readonly [K in keyof F as F[K] extends OptionalNode ? never : K]: TypeOf<F[K]>;
} & {
  readonly [K in keyof F as F[K] extends OptionalNode ? K : never]?: TypeOf<F[K]> | undefined;
};

export const text = (rule: TextRule): Shape<string> => ({ is: 'text', rule });

export const count = (rule: NumberRule): Shape<number> => ({ is: 'count', rule });

export const number = (rule: NumberRule): Shape<number> => ({ is: 'number', rule });

export const flag: Shape<boolean> = { is: 'flag' };

export const exactly = <const V extends string | number | true>(value: V): Shape<V> => ({ is: 'exactly', value });

export const word = <const W extends readonly string[]>(words: W): Shape<W[number]> => ({ is: 'word', words });

export const json = <T>(rule: JsonRule): Shape<T> => ({ is: 'json', rule });

export const list = <S extends Node>(of: S, limits: ListLimits = {}): Shape<readonly TypeOf<S>[]> => ({
  is: 'list',
  of,
  limits,
});

export const map = <S extends Node>(key: TextRule, of: S): Shape<Readonly<Record<string, TypeOf<S>>>> => ({
  is: 'map',
  key,
  of,
});

export const object = <F extends Readonly<Record<string, Node>>>(
  fields: F,
  rule: ObjectRule | null = null,
): Shape<ObjectOf<F>, ObjectNode> => ({ is: 'object', fields, rule });

export const kinds = <K extends Readonly<Record<string, ObjectNode>>>(
  each: K,
): Shape<{ readonly [P in keyof K]: { readonly kind: P } & TypeOf<K[P]> }[keyof K]> => ({ is: 'kinds', kinds: each });

export const either = <A extends Node, B extends Node>(first: A, second: B): Shape<TypeOf<A> | TypeOf<B>> => ({
  is: 'either',
  first,
  second,
});

export const nullable = <S extends Node>(of: S): Shape<TypeOf<S> | null> => ({ is: 'nullable', of });

export const optional = <S extends Node>(of: S): Shape<TypeOf<S>, { readonly is: 'optional'; readonly of: Node }> => ({
  is: 'optional',
  of,
});

/**
 * Removes intersections from objects, so that the compiler treats two types with the same keys as equal. `Stop` stays
 * unchanged.
 */
type Flat<T, Stop> = [Stop] extends [T]
  ? T
  : T extends readonly (infer E)[]
    ? readonly Flat<E, Stop>[]
    : T extends object
      ? { [K in keyof T]: Flat<T[K], Stop> }
      : T;

type IsSame<A, B> = (<X>() => X extends A ? 1 : 2) extends <X>() => X extends B ? 1 : 2 ? true : false;

/**
 * The keys at which two objects differ: one lacks the key, or types, words, kinds or optional fields below it differ.
 * @typeParam Stop  a recursive type, which is compared as it is
 */
export type DifferentKeys<A, B, Stop> = {
  [K in keyof A | keyof B]-?: K extends keyof A & keyof B
    ? IsSame<Flat<Pick<A, K>, Stop>, Flat<Pick<B, K>, Stop>> extends true
      ? never
      : K
    : K;
}[keyof A | keyof B];

/** Does not compile if `K` has a key; the compiler error names it. */
export type NoKeys<K extends never> = K;
