/**
 * Each key of the grammar is in a golden spec with a plan, which shows the meaning of the key. TypeScript:
 * `sdk/keys.test.ts`.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { PLAN_KINDS, type PlanKind } from '../../domain/plan/plan.ts';
import { SPEC } from '../../domain/language/grammar/spec-table.ts';
import type { Key, MappingTable, ValueType } from '../../domain/language/grammar/table.ts';

const isMapping = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A value to look for keys in; without one, each key that there may be. */
type Place = { readonly value: unknown } | null;

function keysIn({ keys }: MappingTable, kind: PlanKind, path: string, at: Place): readonly string[] {
  if (at !== null && !isMapping(at.value)) return [];
  const mapping = at === null ? null : (at.value as Readonly<Record<string, unknown>>);
  return Object.entries<Key>(keys)
    .filter(([name, { kinds }]) => (kinds === undefined || kinds.includes(kind)) && (mapping === null || name in mapping))
    .flatMap(([name, { type }]) => [
      `${path}${name}`,
      ...below(type, kind, `${path}${name}.`, mapping === null ? null : { value: mapping[name] }),
    ]);
}

function below(type: ValueType, kind: PlanKind, path: string, at: Place): readonly string[] {
  const each = (inner: ValueType | MappingTable): readonly string[] =>
    (at === null ? [null] : Array.isArray(at.value) ? at.value.map((value: unknown) => ({ value })) : []).flatMap((item) =>
      'keys' in inner ? keysIn(inner, kind, path, item) : below(inner, kind, path, item),
    );
  if (type.is === 'list') return each(type.of);
  if (type.is === 'stages') return each(type.table);
  if (type.is === 'mapping' || type.is === 'command' || type.is === 'section') return keysIn(type.table, kind, path, at);
  if (type.is === 'variants' || type.is === 'forms')
    return Object.entries(type.tables).flatMap(([name, table]) => {
      const isChosen =
        at === null ||
        (isMapping(at.value) && (type.is === 'variants' ? at.value[type.by.key] === name : name in at.value));
      return isChosen ? keysIn(table, kind, `${path}${name}:`, at) : [];
    });
  // A part adds no keys, because it has the keys of a spec.
  if (type.is !== 'parameters') return [];
  const values = at === null ? [null] : isMapping(at.value) ? Object.values(at.value).map((value) => ({ value })) : [];
  return values.flatMap((value) => keysIn(type.table, kind, `${path}NAME.`, value));
}

const GOLDEN = readdirSync(import.meta.dirname, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && existsSync(join(import.meta.dirname, entry.name, 'plan.json')))
  .map(({ name }): unknown => {
    const file = ['spec.yaml', 'spec.json'].map((each) => join(import.meta.dirname, name, each)).find(existsSync)!;
    return parse(readFileSync(file, 'utf8'), { maxAliasCount: -1 });
  })
  .filter(isMapping);

/** A step and a box are one table. */
const inWords = (path: string): string => path.replace(/^(?:workflow\.steps|pipeline\.boxes)\./, 'stage.');

test('each key is in a golden spec', () => {
  const said = new Set(
    GOLDEN.flatMap((value) => PLAN_KINDS.flatMap((kind) => (value['kind'] === kind ? keysIn(SPEC, kind, '', { value }) : []))).map(inWords),
  );
  expect(said.size).toBeGreaterThan(100);
  const all = new Set(PLAN_KINDS.flatMap((kind) => keysIn(SPEC, kind, '', null)).map(inWords));
  expect([...all].filter((path) => !said.has(path))).toEqual([]);
});
