/**
 * What the tables of the grammar are made of. A table says which keys a mapping has. The reader (`read.ts`), the
 * types of a Spec (`../spec.ts`), the tables of keys in docs/spec.md (`docs.ts`) and the JSON Schema for editors
 * (`json-schema.ts`) are made from it, so a new key is one entry, and its meaning in `compilePlan`.
 */
import type { SpecCode } from '../../errors/spec-codes.ts';
import type { UnsupportedKey } from '../reader.ts';
import type { Located, Position } from '../tree.ts';
import type { PlanKind } from '../../plan/plan.ts';
import type { NumberRange } from './values.ts';

/** A value as JSON and YAML write it. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

export interface MappingTable {
  /** In the order in which keys are read and documented. */
  readonly keys: Keys;
  /** Keys that other versions or systems have. */
  readonly unsupported?: Readonly<Record<string, UnsupportedKey>>;
  /** How the mapping is written, made of a text that stands in its place; named in diagnostics. */
  readonly form?: (text: string) => string;
  /** What diagnostics name its values after, where that is not the mapping itself. */
  readonly of?: ValueOwner;
}

export type Keys = Readonly<Record<string, Key>>;

/** `nothing`: the key alone; `outer`: the mapping that holds this one. */
type ValueOwner = 'nothing' | 'outer';

export interface Key {
  /** The value's name in a Spec, with the unit that it has there. */
  readonly as: string;
  readonly type: ValueType;
  readonly required?: true;
  /** What an absent key stands for, as a spec would write it. The compiler takes it from `domain/plan/defaults.ts`. */
  readonly default?: Json;
  /** What an absent key stands for, where that is more than one value. Markdown. */
  readonly otherwise?: string;
  /** Kinds of specs that have the key; all where it is left out. */
  readonly kinds?: readonly PlanKind[];
  /** What it means; Markdown, for docs and editors. */
  readonly doc: string;
  readonly example: Json;
  /** The key in the remedy for its absence, where its bare name says too little. */
  readonly form?: string;
  /** The value in diagnostics, where that is not the key. */
  readonly called?: string;
  readonly of?: ValueOwner;
}

export type ValueType =
  | TextType
  | NameType
  | WordType
  | NumberType
  | FlagType
  | VariablesType
  | ParametersType
  | ListType
  | MappingType
  | VariantsType
  | StagesType
  | SectionType;

export interface TextType {
  readonly is: 'text';
  /** What it is called in the docs: `text`, `absolute path`. */
  readonly holds: string;
  /** Numbers and booleans are taken as they are written. */
  readonly lenient?: true;
  /** No placeholder may stand in it. */
  readonly plain?: true;
  /** Begins with `/`. */
  readonly absolute?: true;
  /** An empty one is a mistake, and this is the remedy. */
  readonly filled?: string;
}

export interface NameType {
  readonly is: 'name';
}

export interface WordType {
  readonly is: 'word';
  readonly words: readonly string[];
  /** Other words for some of `words`. */
  readonly aliases?: Readonly<Record<string, string>>;
  /** Words of other versions. */
  readonly unsupported?: { readonly words: readonly string[]; readonly remedy: string };
  /** Instead of a list of the words. */
  readonly remedy?: string;
}

export interface NumberType {
  readonly is: 'number';
  readonly range: NumberRange;
  /** Units of a Spec in one unit of the text; 1 where it is left out. */
  readonly scale?: number;
}

export interface FlagType {
  readonly is: 'flag';
  /** Why it cannot be `true` yet. */
  readonly refused?: { readonly code: SpecCode; readonly message: string; readonly remedy: string };
}

/** Variables and their values. */
export interface VariablesType {
  readonly is: 'variables';
}

/** Names of parameters, each with a default or with a mapping of `table`. */
export interface ParametersType {
  readonly is: 'parameters';
  readonly table: MappingTable;
}

export interface ListType {
  readonly is: 'list';
  readonly of: TextType | MappingType | VariantsType;
  /** An item in diagnostics; `#` is its place, from 1. */
  readonly item: string;
  /** What items are called in the docs, where they are texts. */
  readonly items?: string;
  /** Most items; the compiler counts them. */
  readonly most?: number;
  /** An empty one is a mistake; in a Spec, an absent one is null. */
  readonly filled?: { readonly remedy: string; readonly of?: ValueOwner };
}

export interface MappingType {
  readonly is: 'mapping';
  readonly table: MappingTable;
}

/** A mapping whose keys depend on the word behind one of them. */
export interface VariantsType {
  readonly is: 'variants';
  readonly by: Pick<Key, 'doc' | 'form'> & { readonly key: string };
  readonly tables: Readonly<Record<string, MappingTable>>;
  readonly form: (text: string) => string;
}

/** Steps or boxes: `parse-stage.ts` reads them. */
export interface StagesType {
  readonly is: 'stages';
  readonly noun: 'step' | 'box';
  readonly table: MappingTable;
}

/** The section of a kind: `parse.ts` reads it. */
export interface SectionType {
  readonly is: 'section';
  readonly table: MappingTable;
}

/** Types that `readKeys` reads; the others are read by who knows the whole spec. */
export type ReadableType = Exclude<ValueType, StagesType | SectionType>;

export type ReadableKeys = Readonly<Record<string, Key & { readonly type: ReadableType }>>;

export interface ParamSpec {
  readonly name: string;
  readonly at: Position;
  /** Null: a run has to give it. */
  readonly defaultText: string | null;
}

export interface EnvSpec {
  readonly name: string;
  readonly at: Position;
  /** An empty one as written means: the host's variable of that name. */
  readonly value: Located<string>;
}

/** What a value of a type is in a Spec. */
export type ValueOf<T> = T extends { readonly is: 'text' | 'name' }
  ? Located<string>
  : T extends { readonly is: 'word'; readonly words: readonly (infer W)[] }
    ? Located<W>
    : T extends { readonly is: 'number' }
      ? number
      : T extends { readonly is: 'flag' }
        ? boolean
        : T extends { readonly is: 'variables' }
          ? readonly EnvSpec[]
          : T extends { readonly is: 'parameters' }
            ? readonly ParamSpec[]
            : T extends { readonly is: 'list'; readonly of: infer I }
              ? readonly ValueOf<I>[]
              : T extends { readonly is: 'mapping'; readonly table: { readonly keys: infer K } }
                ? WholeOf<K>
                : T extends { readonly is: 'variants'; readonly tables: infer V }
                  ? {
                      readonly [P in keyof V]: V[P] extends { readonly keys: infer K }
                        ? WholeOf<K> & { readonly variant: P }
                        : never;
                    }[keyof V]
                  : never;

/** Values of keys, those of required ones too null where they could not be read. */
export type FieldsOf<K> = { readonly [P in keyof K as PropertyOf<K[P]>]: MaybeOf<TypeOf<K[P]>> };

/** A mapping whose required values could all be read, and where it stands. */
export type WholeOf<K> = { readonly at: Position } & {
  readonly [P in keyof K as PropertyOf<K[P]>]: K[P] extends { readonly required: true }
    ? ValueOf<TypeOf<K[P]>>
    : MaybeOf<TypeOf<K[P]>>;
};

type PropertyOf<K> = K extends { readonly as: infer N extends string } ? N : never;
type TypeOf<K> = K extends { readonly type: infer T } ? T : never;

/** Of an absent key: no items, else null. */
type MaybeOf<T> = T extends { readonly is: 'variables' | 'parameters' }
  ? ValueOf<T>
  : T extends { readonly is: 'list' }
    ? T extends { readonly filled: object }
      ? ValueOf<T> | null
      : ValueOf<T>
    : ValueOf<T> | null;
