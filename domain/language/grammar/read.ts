/** Reads a mapping by its table. Every mistake is a diagnostic; a value that could not be read is absent. */
import type { Problems } from '../text/diagnostics.ts';
import {
  MapReader,
  readBoolean,
  readDuration,
  readEntries,
  readJson,
  readList,
  readMap,
  readName,
  readNumber,
  readPlainText,
  readText,
  readWord,
  wrongType,
} from './reader.ts';
import type { Located, ScalarNode, TreeNode } from '../text/tree.ts';
import { quote } from '../../units/quote.ts';
import { otherKeys } from './other-keys.ts';
import { PARAM_DEFAULT, type PARAMETER } from './param-table.ts';
import { readVariables } from './read-variables.ts';
import { isAllowedBeside } from './table.ts';
import type {
  ChoiceType,
  CommandType,
  EnvSpec,
  FieldsOf,
  FlagType,
  FormsType,
  Key,
  ListType,
  MappingTable,
  NamedTextsType,
  ParamTextsType,
  ParamSpec,
  ParametersType,
  ReadableKeys,
  ReadableType,
  TextType,
  VariantsType,
  WordType,
} from './table.ts';
import type { PlanKind } from '../../plan/plan.ts';
import { applyScale, HOST_LABEL, HOST_LABEL_REMEDY, isVariable, RESERVED_LABELS, VARIABLE_REMEDY } from './values.ts';
import { createMapping } from '../../units/mapping.ts';

/** The context that diagnostics of a mapping's values need. */
export interface Place {
  /** Null: the kind is not known yet, so keys of only one kind are skipped. */
  readonly kind: PlanKind | null;
  /** The key of a group that the mapping has. Keys that do not go with it are skipped. */
  readonly beside?: string;
  /** As in `MappingTable`. */
  readonly of?: MappingTable['of'];
  /** The mapping that holds this one, in the words of a message. */
  readonly outer?: string;
}

/** Reads the values of some keys of a mapping. It skips keys of another kind of spec, so that `finish` reports them. */
export function readKeys<const K extends ReadableKeys>(map: MapReader, keys: K, place: Place): FieldsOf<K> {
  const values: Record<string, unknown> = createMapping();
  for (const [name, key] of Object.entries<ReadableKeys[string]>(keys)) {
    const isOfKind = key.kinds === undefined || (place.kind !== null && key.kinds.includes(place.kind));
    const isHere = isOfKind && isAllowedBeside(key, place.beside);
    values[key.as] = isHere
      ? map.problems.watch(key.feeds, () => readKey(map, name, key, place))
      : readValue(key.type, null, '', map, place);
    if (isHere) refuseExcluded(map, name, key);
  }
  // `FieldsOf` describes what `readValue` returns for each type.
  return values as FieldsOf<K>;
}

function refuseExcluded(map: MapReader, name: string, { excludes = [] }: Key): void {
  const other = map.has(name) ? excludes.find((each) => map.has(each)) : undefined;
  if (other !== undefined)
    map.problems.error(
      'spec/wrong-key',
      map.keyAt(name),
      `${map.what} has both \`${name}\` and \`${other}\``,
      `keep one of them: \`${name}\` cannot be combined with ${excludes.map((each) => `\`${each}\``).join(', ')}`,
    );
}

function readKey(map: MapReader, name: string, key: ReadableKeys[string], place: Place): unknown {
  const node = key.required === true ? map.required(name, key.form) : map.optional(name);
  const what = label(map, name, key, place);
  if (key.type.is === 'word') return readOneOf(key.type, node, name, what, map.problems);
  if (key.type.is === 'flag') return readFlag(key.type, node, what, map);
  if (key.type.is === 'list') checkFilled(key.type, node, name, what, map.problems);
  return readValue(key.type, node, what, map, place);
}

/** Names a value in a message. */
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
      // Items of lists never have these types; `readKey` reads them at other places.
      return null;
    case 'number': {
      const value = readNumber(node, what, type.range, problems);
      return value === null ? null : applyScale(value, type.scale);
    }
    case 'duration':
      return readDuration(node, what, type.range, problems);
    case 'json':
      return readJson(node, what, type, problems);
    case 'variables':
      return readVariables(node, what, problems);
    case 'named-texts':
      return readNamedTexts(type, node, what, problems);
    case 'param-texts':
      return readParamTexts(type, node, what, problems);
    case 'choice':
      return readChoice(type, node, what, map, place);
    case 'command':
      return readCommand(type, node, what, map, place);
    case 'parameters':
      return readParameters(type, node, what, problems);
    case 'list': {
      if (node === null && type.filled !== undefined) return null;
      const item = (index: number): string => `${type.item.replace('#', String(index + 1))} of ${map.what}`;
      const isAlone = type.alone === true && node?.kind === 'scalar' && typeof node.value === 'string';
      return (isAlone ? [node] : readList(node, what, problems)).flatMap(
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
    case 'forms':
      return readForms(type, node, what, place, problems);
  }
}

/** Checks that each group has exactly one key. Returns false if a group has no key, or several. */
export function checkGroups(map: MapReader, { keys }: MappingTable): boolean {
  const groups = new Set(Object.values(keys).flatMap(({ group }) => group ?? []));
  return [...groups].every((group) => {
    const names = Object.keys(keys).filter((name) => keys[name]!.group === group);
    const [first, second] = names.filter((name) => map.has(name));
    if (first === undefined) map.required(names[0]!, keys[names[0]!]!.form);
    if (second !== undefined)
      map.problems.error(
        'spec/wrong-key',
        map.keyAt(second),
        `${map.what} has both \`${first}\` and \`${second}\``,
        'keep one of them',
      );
    return first !== undefined && second === undefined;
  });
}

/** Returns null if a required value is missing, because the mapping is then useless. */
function readWhole(map: MapReader | null, table: MappingTable, place: Place): Record<string, unknown> | null {
  if (map === null) return null;
  const values: Record<string, unknown> = readKeys(map, table.keys as ReadableKeys, place);
  const isChosen = checkGroups(map, table);
  map.finish(otherKeys(table));
  const isWhole = Object.values(table.keys).every((key) => key.required !== true || values[key.as] !== null);
  return isWhole && isChosen ? { at: map.at, ...values } : null;
}

function readVariants(type: VariantsType, map: MapReader | null, place: Place): unknown {
  const { key, form } = type.by;
  const word = map === null ? null : readText(map.required(key, form), `\`${key}\` of ${map.what}`, map.problems);
  if (map === null) return null;
  if (word === null) {
    map.reportMissing();
    return null;
  }
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

function readChoice(type: ChoiceType, node: TreeNode | null, what: string, map: MapReader, place: Place): unknown {
  const { problems } = map;
  if (node === null) return null;
  if (node.kind === 'map') {
    const values = readWhole(new MapReader(node, what, problems), type.table, { ...place, outer: map.what });
    return values === null ? null : { variant: 'mapping', ...values };
  }
  const remedy = `write one of: ${type.words.join(', ')}; or a mapping with ${Object.keys(type.table.keys).join(' and ')}`;
  if (node.kind === 'list') {
    wrongType(node, what, 'a word or a mapping', remedy, problems);
    return null;
  }
  const word = readWord(node, what, [...type.words], problems, remedy);
  return word === null ? null : { variant: 'word', at: word.at, word: word.value };
}

function readCommand(type: CommandType, node: TreeNode | null, what: string, map: MapReader, place: Place): unknown {
  const { problems } = map;
  if (node?.kind === 'map') {
    const command = new MapReader(node, what, problems);
    const values = readWhole(command, type.table, { ...place, outer: map.what });
    // `checkGroups` says that a key of the group is there, not that its value could be read.
    return values === null || (values['program'] === null && values['text'] === null) ? null : values;
  }
  if (node?.kind === 'list') {
    wrongType(node, what, 'a text or a mapping', commandRemedy(node.items), problems);
    return null;
  }
  const text = readText(node, what, problems, true);
  if (text === null) return null;
  if (text.value.trim() === '') {
    problems.error('spec/bad-value', text.at, `${what} is empty`, type.filled);
    return null;
  }
  const others = readKeys(
    new MapReader({ kind: 'map', at: text.at, entries: new Map() }, what, problems),
    type.table.keys as ReadableKeys,
    place,
  );
  return { ...others, at: text.at, text };
}

/** A list is most often a program with its arguments. */
function commandRemedy(items: readonly TreeNode[]): string {
  const words = items.map((item) =>
    item.kind === 'scalar' && /^[\w./:=@-]{1,40}$/.test(item.text) ? item.text : null,
  );
  const [program, ...args] = words;
  if (program === undefined || program === null || args.includes(null) || args.length > 8)
    return 'write `{ program: NAME, args: [TEXT, …] }`, or the command as one text';
  return `write \`{ program: ${program}, args: [${args.join(', ')}] }\`, or the command as one text`;
}

/** Reports entries beyond the limit, and leaves them out. */
function readFewEntries(
  node: TreeNode | null,
  what: string,
  { most, remedy }: { readonly most: number; readonly remedy: string },
  problems: Problems,
): ReturnType<typeof readEntries> {
  const entries = readEntries(node, what, problems);
  const over = entries[most];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over[1].keyAt,
      `${what} has ${entries.length} entries; it can have at most ${most}`,
      remedy,
    );
  return entries.slice(0, most);
}

function readNamedTexts(
  type: NamedTextsType,
  node: TreeNode | null,
  what: string,
  problems: Problems,
): readonly EnvSpec[] {
  const limit = { most: type.most, remedy: 'remove those that no stage uses' };
  return readFewEntries(node, what, limit, problems).flatMap(([name, { keyAt, value }]): EnvSpec[] => {
    if (!HOST_LABEL.test(name) || RESERVED_LABELS.includes(name)) {
      problems.error('spec/bad-name', keyAt, `${what} names the ${type.of} ${quote(name)}`, HOST_LABEL_REMEDY);
      return [];
    }
    const text = readPlainText(value, `the ${type.of} ${name} in ${what}`, problems);
    return text === null ? [] : [{ name, at: keyAt, value: text }];
  });
}

function readParamTexts(
  type: ParamTextsType,
  node: TreeNode | null,
  what: string,
  problems: Problems,
): readonly EnvSpec[] {
  const limit = { most: type.most, remedy: 'pass the payload as the input of the run' };
  return readFewEntries(node, what, limit, problems).flatMap(([name, { keyAt, value }]): EnvSpec[] => {
    const written = { kind: 'scalar', at: keyAt, value: name, text: name } as const;
    if (readName(written, 'the name of a parameter', problems) === null) return [];
    const text = readText(value, `the parameter ${name} in ${what}`, problems, true);
    return text === null ? [] : [{ name, at: keyAt, value: text }];
  });
}

function readForms(type: FormsType, node: TreeNode | null, what: string, place: Place, problems: Problems): unknown {
  if (node === null) return null;
  if (node.kind === 'map') {
    const map = new MapReader(node, what, problems);
    const variant = Object.keys(type.tables).find((key) => map.has(key));
    const values = variant === undefined ? null : readWhole(map, type.tables[variant]!, place);
    if (variant !== undefined) return values === null ? null : { variant, ...values };
    if (node.isPartial === true) return null;
    const keys = Object.keys(type.tables).map((key) => `\`${key}\``);
    problems.error(
      'spec/missing-key',
      node.at,
      `${what} must have one of ${keys.join(', ')}`,
      `write \`${type.form}\``,
    );
    return null;
  }
  const text = readPlainText(node, what, problems);
  if (text === null) return null;
  const colon = text.value.indexOf(':');
  const prefix = text.value.slice(0, Math.max(0, colon));
  if (type.prefixes.includes(prefix) && colon < text.value.length - 1)
    return { variant: 'text', at: text.at, prefix, text: text.value.slice(colon + 1) };
  problems.error(
    'spec/bad-value',
    text.at,
    `${what} is ${quote(text.value)}${colon < 0 || type.prefixes.includes(prefix) ? '' : problems.suggest(prefix, type.prefixes)}`,
    `write \`TYPE:VALUE\` with one of the types ${type.prefixes.join(', ')}`,
  );
  return null;
}

function readTextOf(type: TextType, node: TreeNode | null, what: string, problems: Problems): Located<string> | null {
  const text = type.plain === true ? readPlainText(node, what, problems) : readText(node, what, problems, type.lenient);
  if (text?.value === '' && type.filled !== undefined)
    problems.error('spec/bad-value', text.at, `${what} is empty`, type.filled);
  if (text !== null && type.variable === true && !isVariable(text.value)) {
    problems.error('spec/bad-name', text.at, `${what} is ${quote(text.value)}`, VARIABLE_REMEDY);
    return null;
  }
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
  const said =
    type.anyCase === true && node?.kind === 'scalar' && typeof node.value === 'string' ? toLowerCase(node) : node;
  const word = readWord(said, what, [...type.words, ...Object.keys(aliases)], problems, type.remedy);
  return word === null
    ? null
    : { value: Object.hasOwn(aliases, word.value) ? aliases[word.value]! : word.value, at: word.at };
}

function toLowerCase(node: ScalarNode): ScalarNode {
  const text = node.text.toLowerCase();
  return { ...node, value: text, text };
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
  const entries = problems.watch('params', () => readEntries(node, what, problems));
  return entries.flatMap(([name, { keyAt, value }]): ParamSpec[] => {
    const written = { kind: 'scalar', at: keyAt, value: name, text: name } as const;
    if (problems.watch('params', () => readName(written, 'the name of a parameter', problems)) === null) return [];
    return [{ name, at: keyAt, ...readParameter(type, value, `parameter ${quote(name)}`, problems) }];
  });
}

const PLAIN_PARAM = { type: null, fallback: null, isOpen: false, min: null, max: null, choices: [] } as const;

/**
 * Reads a parameter: a bare value is its default, and a mapping may have one. Without a default, the run must set it.
 */
function readParameter(
  type: ParametersType,
  value: TreeNode,
  what: string,
  problems: Problems,
): Omit<ParamSpec, 'name' | 'at'> {
  if (value.kind === 'scalar' && value.value === null) return PLAIN_PARAM;
  if (value.kind !== 'map') {
    const fallback = readJson(value, what, PARAM_DEFAULT, problems);
    return { ...PLAIN_PARAM, fallback, isOpen: fallback === null };
  }
  const map = new MapReader(value, what, problems);
  const read = readWhole(map, type.table, { kind: null }) as FieldsOf<typeof PARAMETER.keys> | null;
  if (read === null) return { ...PLAIN_PARAM, isOpen: true };
  const { default: fallback, description: _description, ...rest } = read;
  // A default that could not be read was reported, but the parameter still counts as having one.
  return { ...rest, fallback, isOpen: fallback === null && map.has('default') };
}
