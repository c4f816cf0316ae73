/**
 * Collects the messages for keys that a mapping does not have. They follow from its table and are computed once per
 * table.
 */
import { type MeantKey, type OtherKeys, plainKey } from './reader.ts';
import type { Key, Keys, MappingTable } from './table.ts';

const made = new Map<MappingTable, OtherKeys>();

export function otherKeys(table: MappingTable): OtherKeys {
  const known = made.get(table) ?? make(table);
  made.set(table, known);
  return known;
}

function make({ keys, unsupported = {}, misplaced = {} }: MappingTable): OtherKeys {
  const owners = Object.entries(misplaced).map(([owner, theirs]) => ({
    owner,
    theirs: groupByWords(theirs),
    within: /^`(\w+)`$/.exec(owner)?.[1] ?? null,
  }));
  const misplacedWords = new Map<string, MeantKey & { readonly owner: string; readonly within: string | null }>();
  for (const isKey of [false, true])
    for (const { owner, theirs, within } of owners)
      for (const [word, meant] of theirs)
        // The exact name of a key overrides an alias of another key.
        if ((word === plainKey(meant.key)) === isKey) misplacedWords.set(word, { ...meant, owner, within });
  return {
    unsupported: new Map(Object.entries(unsupported).map(([key, what]) => [plainKey(key), what])),
    misplaced: misplacedWords,
    meant: groupByWords(keys),
  };
}

function groupByWords(keys: Keys): ReadonlyMap<string, MeantKey> {
  const others = Object.entries(keys).flatMap(([name, key]) =>
    (key.mistaken ?? []).map((word) => [plainKey(word), describeMeantKey(name, key)] as const),
  );
  return new Map([
    ...others,
    ...Object.entries(keys).map(([name, key]) => [plainKey(name), describeMeantKey(name, key)] as const),
  ]);
}

function describeMeantKey(name: string, { form, type, feeds }: Key): MeantKey {
  const unit = type.is === 'number' && type.range.unit !== '' ? `, a number of ${type.range.unit}` : '';
  return { key: name, form: form ?? name, unit, feeds };
}
