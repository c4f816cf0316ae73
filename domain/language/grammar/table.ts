/**
 * The types of the grammar tables. A table lists the keys of a mapping. The reader (`read.ts`) and the types of a Spec
 * (`../read/spec.ts`) follow from the tables. So do the tables of keys in docs/reference/spec.md (`docs.ts`) and the JSON Schema
 * for editors (`json-schema.ts`). A new key therefore needs one entry, and its meaning in `compilePlan`.
 */
import type { SpecCode } from '../../errors/spec-codes.ts';
import type { Gap } from '../text/diagnostics.ts';
import type { UnsupportedKey } from './reader.ts';
import type { Json, JsonSpec, JsonType } from './json.ts';
import type { Located, Position } from '../text/tree.ts';
import type { PlanKind } from '../../plan/plan.ts';
import type { DurationRange, NumberRange, PARAM_TYPES } from './values.ts';

export interface MappingTable {
  /** In the order in which keys are read and documented. */
  readonly keys: Keys;
  /** Keys that other versions or systems have. */
  readonly unsupported?: Readonly<Record<string, UnsupportedKey>>;
  /** Keys of other mappings that authors often write here, by the name of their mapping. */
  readonly misplaced?: Readonly<Record<string, Keys>>;
  /** Returns the form of the mapping if the author wrote a text instead; diagnostics show it. */
  readonly form?: (text: string) => string;
  /** The owner that diagnostics name for its values. Absent: the mapping itself. */
  readonly of?: ValueOwner;
}

export type Keys = Readonly<Record<string, Key>>;

/** `nothing`: diagnostics name only the key; `outer`: the mapping that holds this one. */
type ValueOwner = 'nothing' | 'outer';

export interface Key {
  /** The name of the value in a Spec, with its unit there. */
  readonly as: string;
  readonly type: ValueType;
  readonly required?: true;
  /** The meaning of an absent key, as a spec would write it. The compiler uses `domain/plan/defaults.ts`. */
  readonly default?: Json;
  /** The meaning of an absent key, if it is not one value. Markdown. */
  readonly otherwise?: string;
  /** A mapping has exactly one key of a group. */
  readonly group?: string;
  /** The keys of a group that allow this key. Absent: all of them. */
  readonly goesWith?: readonly string[];
  /** Other keys that exclude this key. */
  readonly excludes?: readonly string[];
  /** The key without which this one has no effect. */
  readonly needs?: string;
  /** Kinds of specs that have the key. Absent: all kinds. */
  readonly kinds?: readonly PlanKind[];
  /** The meaning, for docs and editors. Markdown. */
  readonly doc: string;
  readonly example: Json;
  /** Words of other systems for the key. They are errors, because the run would differ without the key. */
  readonly mistaken?: readonly string[];
  /** The conclusion that needs all values of the key in a spec. It is left open if one of them could not be read. */
  readonly feeds?: Gap;
  /** The key in a remedy, if its name on its own says too little. */
  readonly form?: string;
  /** The name of the value in diagnostics. Absent: the key. */
  readonly called?: string;
  readonly of?: ValueOwner;
}

export type ValueType =
  | TextType
  | NameType
  | WordType
  | NumberType
  | DurationType
  | FlagType
  | JsonType
  | VariablesType
  | ParametersType
  | ListType
  | MappingType
  | ChoiceType
  | CommandType
  | NamedTextsType
  | ParamTextsType
  | VariantsType
  | FormsType
  | StagesType
  | SectionType
  | PartsType;

export interface TextType {
  readonly is: 'text';
  /** The type's name in the docs: `text`, `absolute path`. */
  readonly holds: string;
  /** Numbers and booleans are accepted as they are written. */
  readonly lenient?: true;
  /** It must not contain a placeholder. */
  readonly plain?: true;
  /** It must begin with `/`. */
  readonly absolute?: true;
  /** The remedy for an empty text, which is then a mistake. */
  readonly filled?: string;
  /** The name of a variable, as `VARIABLE` in `values.ts` defines it. */
  readonly variable?: true;
}

export interface NameType {
  readonly is: 'name';
}

export interface WordType {
  readonly is: 'word';
  readonly words: readonly string[];
  /** Other words for some of `words`. */
  readonly aliases?: Readonly<Record<string, string>>;
  /** Ignores case: `Claude` means `claude`. */
  readonly anyCase?: true;
  /** Words that only other versions have, and the remedy. */
  readonly unsupported?: { readonly words: readonly string[]; readonly remedy: string };
  /** The remedy for another word. Absent: the list of the words. */
  readonly remedy?: string;
}

export interface NumberType {
  readonly is: 'number';
  readonly range: NumberRange;
  /** Units of a Spec per unit of the text. Absent: 1. */
  readonly scale?: number;
}

/** A text with units, such as `90s`, `1h30m` or `2d`; in a Spec, milliseconds. */
export interface DurationType {
  readonly is: 'duration';
  readonly range: DurationRange;
}

export interface FlagType {
  readonly is: 'flag';
  /** The error for `true`, which is not supported yet. */
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
  readonly of: TextType | MappingType | VariantsType | FormsType;
  /** The name of an item in diagnostics; `#` is its position, from 1. */
  readonly item: string;
  /** The name of items in the docs, if they are texts. */
  readonly items?: string;
  /** A text on its own is a list with this item. */
  readonly alone?: true;
  /** The most items; the compiler checks it. */
  readonly most?: number;
  /** The remedy for an empty list, which is then a mistake. In a Spec, an absent list is null. */
  readonly filled?: { readonly remedy: string; readonly of?: ValueOwner };
}

export interface MappingType {
  readonly is: 'mapping';
  readonly table: MappingTable;
}

/** A word, or a mapping for values that a word cannot express. */
export interface ChoiceType {
  readonly is: 'choice';
  readonly words: readonly string[];
  /** The name of the words in the docs. Absent: the list of the words. */
  readonly holds?: string;
  readonly table: MappingTable;
}

/** A text that a shell reads, or a mapping with a program. */
export interface CommandType {
  readonly is: 'command';
  readonly table: MappingTable;
  /** The remedy for an empty text, which is a mistake. */
  readonly filled: string;
}

/** Names of hosts, each with a text. */
export interface NamedTextsType {
  readonly is: 'named-texts';
  /** The name of the texts in the docs. */
  readonly holds: string;
  /** The name of one text in messages. */
  readonly of: string;
  readonly most: number;
}

/** Names of parameters, each with a text. */
export interface ParamTextsType {
  readonly is: 'param-texts';
  readonly most: number;
}

/** A mapping whose keys depend on the value of one of them. */
export interface VariantsType {
  readonly is: 'variants';
  readonly by: Pick<Key, 'doc' | 'form'> & { readonly key: string };
  readonly tables: Readonly<Record<string, MappingTable>>;
  readonly form: (text: string) => string;
}

/** A text with one of some prefixes, such as `file:PATH`, or a mapping that one of its keys identifies. */
export interface FormsType {
  readonly is: 'forms';
  readonly prefixes: readonly string[];
  /** The form of one value, for remedies. */
  readonly form: string;
  /** Tables by the key that only their mappings have. */
  readonly tables: Readonly<Record<string, MappingTable>>;
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

/** Names of parts, each with the content of the part: `parse.ts` reads them. */
export interface PartsType {
  readonly is: 'parts';
  readonly table: MappingTable;
}

/** Types that `readKeys` reads. Code that knows the whole spec reads the others. */
export type ReadableType = Exclude<ValueType, StagesType | SectionType | PartsType>;

export type ReadableKeys = Readonly<Record<string, Key & { readonly type: ReadableType }>>;

/** A parameter as written; the compiler checks whether its keys fit together. */
export interface ParamSpec {
  readonly name: string;
  readonly at: Position;
  /** Null: its other keys decide the type. */
  readonly type: Located<(typeof PARAM_TYPES)[number]> | null;
  /** Null: a run must set the value. */
  readonly fallback: JsonSpec | null;
  /** True if it has a default that could not be read. */
  readonly isOpen: boolean;
  readonly min: JsonSpec<number> | null;
  readonly max: JsonSpec<number> | null;
  readonly choices: readonly Located<string>[];
}

export interface EnvSpec {
  readonly name: string;
  readonly at: Position;
  /** An empty text means the host's variable of that name. */
  readonly value: Located<string>;
}

/** The type of a value in a Spec. */
export type ValueOf<T> = T extends { readonly is: 'text' | 'name' }
  ? Located<string>
  : T extends { readonly is: 'word'; readonly words: readonly (infer W)[] }
    ? Located<W>
    : T extends { readonly is: 'number' | 'duration' }
      ? number
      : T extends { readonly is: 'flag' }
        ? boolean
        : T extends { readonly is: 'json'; readonly shapes: readonly ['number'] }
          ? JsonSpec<number>
          : T extends { readonly is: 'json' }
            ? JsonSpec
            : T extends { readonly is: 'variables' | 'named-texts' | 'param-texts' }
              ? readonly EnvSpec[]
              : T extends { readonly is: 'parameters' }
                ? readonly ParamSpec[]
                : T extends { readonly is: 'list'; readonly of: infer I }
                  ? readonly ValueOf<I>[]
                  : T extends { readonly is: 'mapping'; readonly table: { readonly keys: infer K } }
                    ? WholeOf<K>
                    : T extends { readonly is: 'command'; readonly table: { readonly keys: infer K } }
                      ? WholeOf<K>
                      : T extends {
                            readonly is: 'choice';
                            readonly words: readonly (infer W)[];
                            readonly table: { readonly keys: infer K };
                          }
                        ? | { readonly variant: 'word'; readonly at: Position; readonly word: W }
                          | ({ readonly variant: 'mapping' } & WholeOf<K>)
                        : T extends { readonly is: 'variants'; readonly tables: infer V }
                          ? {
                              readonly [P in keyof V]: V[P] extends { readonly keys: infer K }
                                ? WholeOf<K> & { readonly variant: P }
                                : never;
                            }[keyof V]
                          : T extends {
                                readonly is: 'forms';
                                readonly tables: infer V;
                                readonly prefixes: readonly (infer P)[];
                              }
                            ? | {
                                  readonly variant: 'text';
                                  readonly at: Position;
                                  readonly prefix: P;
                                  readonly text: string;
                                }
                              | {
                                  readonly [Q in keyof V]: V[Q] extends { readonly keys: infer K }
                                    ? WholeOf<K> & { readonly variant: Q }
                                    : never;
                                }[keyof V]
                            : never;

/** Values of keys. The value of a required key is also null if it could not be read. */
export type FieldsOf<K> = { readonly [P in keyof K as PropertyOf<K[P]>]: MaybeOf<TypeOf<K[P]>> };

/** A mapping whose required values could all be read, with its position. */
export type WholeOf<K> = { readonly at: Position } & {
  readonly [P in keyof K as PropertyOf<K[P]>]: K[P] extends { readonly required: true }
    ? ValueOf<TypeOf<K[P]>>
    : MaybeOf<TypeOf<K[P]>>;
};

type PropertyOf<K> = K extends { readonly as: infer N extends string } ? N : never;
type TypeOf<K> = K extends { readonly type: infer T } ? T : never;

/** The value of an absent key: an empty list for types with entries or items, otherwise null. */
type MaybeOf<T> = T extends { readonly is: 'variables' | 'parameters' | 'named-texts' | 'param-texts' }
  ? ValueOf<T>
  : T extends { readonly is: 'list' }
    ? T extends { readonly filled: object }
      ? ValueOf<T> | null
      : ValueOf<T>
    : ValueOf<T> | null;

/** @param beside  the key of a group that the mapping has */
export function isAllowedBeside({ group, goesWith: others }: Key, beside: string | undefined): boolean {
  return group !== undefined || others === undefined || beside === undefined || others.includes(beside);
}
