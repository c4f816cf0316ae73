/**
 * What the tables of the grammar are made of. A table says which keys a mapping has. The reader (`read.ts`), the
 * types of a Spec (`../read/spec.ts`), the tables of keys in docs/reference/spec.md (`docs.ts`) and the JSON Schema for editors
 * (`json-schema.ts`) are made from it, so a new key is one entry, and its meaning in `compilePlan`.
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
  /** Keys of other mappings that are easily put here, by what those are called. */
  readonly misplaced?: Readonly<Record<string, Keys>>;
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
  /** Exactly one key of a group stands in a mapping. */
  readonly group?: string;
  /** The keys of a group that this one goes with; all where it is left out. */
  readonly goesWith?: readonly string[];
  /** Other keys that cannot stand beside it. */
  readonly excludes?: readonly string[];
  /** The key without which this one means nothing. */
  readonly needs?: string;
  /** Kinds of specs that have the key; all where it is left out. */
  readonly kinds?: readonly PlanKind[];
  /** What it means; Markdown, for docs and editors. */
  readonly doc: string;
  readonly example: Json;
  /** Words that other systems have for it. Left out, the run would be another one, so they are errors. */
  readonly mistaken?: readonly string[];
  /** What is concluded from all values of the key in a spec; not where one of them could not be read. */
  readonly feeds?: Gap;
  /** The key in a remedy, where its bare name says too little. */
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
  | VariantsType
  | FormsType
  | StagesType
  | SectionType
  | PartsType;

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
  /** The name of a variable, as `VARIABLE` in `values.ts` has it. */
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
  /** `Claude` is `claude`. */
  readonly anyCase?: true;
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

/** A text with units, such as `90s`, `1h30m` or `2d`; milliseconds in a Spec. */
export interface DurationType {
  readonly is: 'duration';
  readonly range: DurationRange;
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
  readonly of: TextType | MappingType | VariantsType | FormsType;
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

/** A word, or a mapping where no word says enough. */
export interface ChoiceType {
  readonly is: 'choice';
  readonly words: readonly string[];
  readonly table: MappingTable;
}

/** A text that a shell reads, or a mapping with a program. */
export interface CommandType {
  readonly is: 'command';
  readonly table: MappingTable;
  /** An empty text is a mistake, and this is the remedy. */
  readonly filled: string;
}

/** Names of hosts, each with a text. */
export interface NamedTextsType {
  readonly is: 'named-texts';
  /** What the texts are called in the docs. */
  readonly holds: string;
  /** What one of them is, in messages. */
  readonly of: string;
  readonly most: number;
}

/** A mapping whose keys depend on the word behind one of them. */
export interface VariantsType {
  readonly is: 'variants';
  readonly by: Pick<Key, 'doc' | 'form'> & { readonly key: string };
  readonly tables: Readonly<Record<string, MappingTable>>;
  readonly form: (text: string) => string;
}

/** A text with one of some prefixes, such as `file:PATH`, or a mapping that is known by one of its keys. */
export interface FormsType {
  readonly is: 'forms';
  readonly prefixes: readonly string[];
  /** How one is written, for remedies. */
  readonly form: string;
  /** By the key that only mappings of the table have. */
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

/** Names, each with what a part of that name is: `parse.ts` reads them. */
export interface PartsType {
  readonly is: 'parts';
  readonly table: MappingTable;
}

/** Types that `readKeys` reads; the others are read by who knows the whole spec. */
export type ReadableType = Exclude<ValueType, StagesType | SectionType | PartsType>;

export type ReadableKeys = Readonly<Record<string, Key & { readonly type: ReadableType }>>;

/** Whether it fits together is the compiler's to say. */
export interface ParamSpec {
  readonly name: string;
  readonly at: Position;
  /** Null: what its other keys ask for. */
  readonly type: Located<(typeof PARAM_TYPES)[number]> | null;
  /** Null: a run has to give it. */
  readonly fallback: JsonSpec | null;
  /** It has a default that could not be read. */
  readonly isOpen: boolean;
  readonly min: JsonSpec<number> | null;
  readonly max: JsonSpec<number> | null;
  readonly choices: readonly Located<string>[];
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
    : T extends { readonly is: 'number' | 'duration' }
      ? number
      : T extends { readonly is: 'flag' }
        ? boolean
        : T extends { readonly is: 'json'; readonly shapes: readonly ['number'] }
          ? JsonSpec<number>
          : T extends { readonly is: 'json' }
            ? JsonSpec
            : T extends { readonly is: 'variables' | 'named-texts' }
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
type MaybeOf<T> = T extends { readonly is: 'variables' | 'parameters' | 'named-texts' }
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
