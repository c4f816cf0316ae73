/** Reads a mapping by its table. Every mistake is a diagnostic; a value that could not be read is absent. */
import type { Problems } from '../problems.ts';
import {
  MapReader,
  readBoolean,
  readEntries,
  readList,
  readMap,
  readName,
  readNumber,
  readPlainText,
  readText,
  readWord,
} from '../reader.ts';
import { type Located, quote, type TreeNode } from '../tree.ts';
import { readVariables } from './read-variables.ts';
import type {
  FieldsOf,
  FlagType,
  Key,
  ListType,
  MappingTable,
  ParamSpec,
  ParametersType,
  ReadableKeys,
  ReadableType,
  TextType,
  VariantsType,
  WordType,
} from './table.ts';
import type { PlanKind } from '../../plan/plan.ts';
import { scaled } from './values.ts';

/** What diagnostics of a mapping's values depend on. */
export interface Place {
  /** Null: not known yet; keys that only one kind has are left out. */
  readonly kind: PlanKind | null;
  /** As in `MappingTable`. */
  readonly of?: MappingTable['of'];
  /** The mapping that holds this one, in the words of a message. */
  readonly outer?: string;
}

/** Values of some keys of a mapping. Keys of another kind of spec are not asked for, so that `finish` reports them. */
export function readKeys<const K extends ReadableKeys>(map: MapReader, keys: K, place: Place): FieldsOf<K> {
  const values: Record<string, unknown> = {};
  for (const [name, key] of Object.entries<ReadableKeys[string]>(keys)) {
    const isHere = key.kinds === undefined || (place.kind !== null && key.kinds.includes(place.kind));
    values[key.as] = isHere ? readKey(map, name, key, place) : readValue(key.type, null, '', map, place);
  }
  // The type says of each key what `readValue` gives for its type.
  return values as FieldsOf<K>;
}

function readKey(map: MapReader, name: string, key: ReadableKeys[string], place: Place): unknown {
  const node = key.required === true ? map.required(name, key.form) : map.optional(name);
  const what = label(map, name, key, place);
  if (key.type.is === 'word') return readOneOf(key.type, node, name, what, map.problems);
  if (key.type.is === 'flag') return readFlag(key.type, node, what, map);
  if (key.type.is === 'list') checkFilled(key.type, node, name, what, map.problems);
  return readValue(key.type, node, what, map, place);
}

/** A value in the words of a message. */
function label(map: MapReader, name: string, key: Key, place: Place): string {
  const called = key.called ?? `\`${name}\``;
  const of = key.of ?? place.of;
  return of === 'nothing' ? called : `${called} of ${of === 'outer' ? place.outer! : map.what}`;
}

/** @param map  the mapping that holds the value */
function readValue(type: ReadableType, node: TreeNode | null, what: string, map: MapReader, place: Place): unknown {
  const { problems } = map;
  switch (type.is) {
    case 'text':
      return readTextOf(type, node, what, problems);
    case 'name':
      return readName(node, what, problems);
    case 'word':
    case 'flag':
      // Items of lists are neither; `readKey` reads the rest.
      return null;
    case 'number': {
      const value = readNumber(node, what, type.range, problems);
      return value === null ? null : scaled(value, type.scale);
    }
    case 'variables':
      return readVariables(node, what, problems);
    case 'parameters':
      return readParameters(type, node, what, problems);
    case 'list': {
      if (node === null && type.filled !== undefined) return null;
      const item = (index: number): string => `${type.item.replace('#', String(index + 1))} of ${map.what}`;
      return readList(node, what, problems).flatMap(
        (each, index) => readValue(type.of, each, item(index), map, place) ?? [],
      );
    }
    case 'mapping':
      return readWhole(readMap(node, what, problems, type.table.form), type.table, {
        kind: place.kind,
        of: type.table.of,
        outer: map.what,
      });
    case 'variants':
      return readVariants(type, readMap(node, what, problems, type.form), place);
  }
}

/** Null when a required value is missing: the mapping means nothing without it. */
function readWhole(map: MapReader | null, table: MappingTable, place: Place): Record<string, unknown> | null {
  if (map === null) return null;
  const values: Record<string, unknown> = readKeys(map, table.keys as ReadableKeys, place);
  map.finish(table.unsupported);
  const isWhole = Object.values(table.keys).every((key) => key.required !== true || values[key.as] !== null);
  return isWhole ? { at: map.at, ...values } : null;
}

function readVariants(type: VariantsType, map: MapReader | null, place: Place): unknown {
  const { key, form } = type.by;
  const word = map === null ? null : readText(map.required(key, form), `\`${key}\` of ${map.what}`, map.problems);
  if (map === null || word === null) return null;
  const table = Object.hasOwn(type.tables, word.value) ? type.tables[word.value] : undefined;
  if (table !== undefined) {
    const values = readWhole(map, table, place);
    return values === null ? null : { variant: word.value, ...values };
  }
  const words = Object.keys(type.tables);
  map.problems.error(
    'spec/bad-value',
    word.at,
    `\`${key}\` of ${map.what} is ${quote(word.value)}${map.problems.suggest(word.value, words)}`,
    `write one of: ${words.join(', ')}`,
  );
  return null;
}

function readTextOf(type: TextType, node: TreeNode | null, what: string, problems: Problems): Located<string> | null {
  const text = type.plain === true ? readPlainText(node, what, problems) : readText(node, what, problems, type.lenient);
  if (text?.value === '' && type.filled !== undefined)
    problems.error('spec/bad-value', text.at, `${what} is empty`, type.filled);
  return text;
}

function readOneOf(
  type: WordType,
  node: TreeNode | null,
  name: string,
  what: string,
  problems: Problems,
): Located<string> | null {
  if (
    type.unsupported !== undefined &&
    node?.kind === 'scalar' &&
    typeof node.value === 'string' &&
    type.unsupported.words.includes(node.value)
  ) {
    const message = `not supported yet: ${name} ${node.value}; supported: ${type.words.join(', ')}`;
    problems.error('spec/unsupported', node.at, message, type.unsupported.remedy);
    return null;
  }
  const aliases = type.aliases ?? {};
  const word = readWord(node, what, [...type.words, ...Object.keys(aliases)], problems, type.remedy);
  return word === null
    ? null
    : { value: Object.hasOwn(aliases, word.value) ? aliases[word.value]! : word.value, at: word.at };
}

function readFlag(type: FlagType, node: TreeNode | null, what: string, map: MapReader): boolean | null {
  const value = readBoolean(node, what, map.problems);
  if (value === true && type.refused !== undefined)
    map.problems.error(type.refused.code, node!.at, `${map.what} ${type.refused.message}`, type.refused.remedy);
  return value;
}

function checkFilled(type: ListType, node: TreeNode | null, name: string, what: string, problems: Problems): void {
  if (type.filled === undefined || node?.kind !== 'list' || node.items.length > 0) return;
  problems.error(
    'spec/bad-value',
    node.at,
    `${type.filled.of === 'nothing' ? `\`${name}\`` : what} is empty`,
    type.filled.remedy,
  );
}

function readParameters(
  type: ParametersType,
  node: TreeNode | null,
  what: string,
  problems: Problems,
): readonly ParamSpec[] {
  return readEntries(node, what, problems).flatMap(([name, { keyAt, value }]): ParamSpec[] => {
    if (readName({ kind: 'scalar', at: keyAt, value: name, text: name }, 'the name of a parameter', problems) === null)
      return [];
    return [{ name, at: keyAt, defaultText: readDefault(type, value, `parameter ${quote(name)}`, problems) }];
  });
}

/** A bare value is the default; a mapping may have one; nothing means that the run has to give it. */
function readDefault(type: ParametersType, value: TreeNode, what: string, problems: Problems): string | null {
  if (value.kind === 'scalar' && value.value === null) return null;
  if (value.kind !== 'map') return readText(value, what, problems, true)?.value ?? '';
  const map = new MapReader(value, what, problems);
  const fallback = (readWhole(map, type.table, { kind: null })?.['default'] ?? null) as Located<string> | null;
  // A default that could not be read was reported; the parameter still has one.
  return map.has('default') ? (fallback?.value ?? '') : null;
}
