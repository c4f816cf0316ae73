/**
 * Generates specs that the tables allow, and damages them at random: the reader and the schema for editors must agree
 * on each.
 */
import { expect, test } from 'vitest';
import { compileEditorSchema } from '../../../test/rig/skills/editor-schema.ts';
import { parseSpec } from '../read/parse.ts';
import { createSpecSchema } from './json-schema.ts';
import { SECTION_KINDS, SPEC } from './spec-table.ts';
import { isAllowedBeside, type Key, type MappingTable, type ValueType } from './table.ts';
import { writeDurationMs } from '../../units/duration.ts';
import { type PlanKind, PLAN_KINDS } from '../../plan/plan.ts';

const ROUNDS = 150;

/** Every text among them is an absolute path: the schema and the compiler check paths, but the reader does not. */
const JUNK: readonly unknown[] = [7, -1, 1.5, 1e9, true, false, '/x', [], ['/x'], [[]], {}, { zzz: 1 }, { name: 'a' }];

type Random = (below: number) => number;

function createRandom(start: number): Random {
  let seed = start;
  return (below) => (seed = (seed * 48_271) % 2_147_483_647) % below;
}

function oneOf<T>(values: readonly T[], random: Random): T {
  return values[random(values.length)]!;
}

function some<T>(least: number, make: () => T, random: Random): readonly T[] {
  return Array.from({ length: least + random(3 - least) }, make);
}

function makeMapping({ keys }: MappingTable, kind: PlanKind, random: Random): Record<string, unknown> {
  const here = Object.entries<Key>(keys).filter(([, key]) => key.kinds === undefined || key.kinds.includes(kind));
  const ofGroup = here.filter(([, key]) => key.group !== undefined);
  const [chosen] = ofGroup.length === 0 ? [undefined] : oneOf(ofGroup, random);
  const said = here.filter(([name, key]) => {
    if (key.group !== undefined) return name === chosen;
    if (chosen !== undefined && key.excludes?.includes(chosen) === true) return false;
    return isAllowedBeside(key, chosen) && (key.required === true || random(3) === 0);
  });
  const excluded = new Set(said.flatMap(([, key]) => key.excludes ?? []));
  return Object.fromEntries(
    said.filter(([name]) => !excluded.has(name)).map(([name, key]) => [name, make(key.type, kind, random)]),
  );
}

function make(type: ValueType, kind: PlanKind, random: Random): unknown {
  switch (type.is) {
    case 'text':
      if (type.absolute === true) return '/x/y';
      if (type.variable === true) return oneOf(['A', '_b1'], random);
      if (type.lenient !== true) return oneOf(['x', '7'], random);
      return oneOf(type.filled === undefined ? ['x', '', 7, 1.5, true] : ['x', 7, 1.5, true], random);
    case 'name':
      return oneOf(['a', 'a.b_c-d', '7', 'x'.repeat(64)], random);
    case 'word':
      return oneOf([...type.words, ...Object.keys(type.aliases ?? {})], random);
    case 'number':
      return oneOf([type.range.min, type.range.max, Math.ceil((type.range.min + type.range.max) / 2)], random);
    case 'duration':
      return oneOf([type.range.minMs, type.range.minMs + 1_000, type.range.maxMs].map(writeDurationMs), random);
    case 'flag':
      return false;
    case 'json':
      return oneOf(
        ['x', 7, true, ['a', 7], { a: [7, { b: 'x' }] }].filter((value) =>
          (type.shapes as readonly string[]).includes(Array.isArray(value) ? 'array' : typeof value),
        ),
        random,
      );
    case 'variables':
      return oneOf([{}, { A: '', _b1: 'x' }, { A: 7, B: true }], random);
    case 'named-texts':
      return oneOf([{}, { a: 'x:1' }, { 'a-1': 'x:1', b: 'y:2' }], random);
    case 'choice':
      return random(2) === 0 ? oneOf(type.words, random) : makeMapping(type.table, kind, random);
    case 'command':
      return random(2) === 0 ? oneOf(['npm ci && npm test', true, 7], random) : makeMapping(type.table, kind, random);
    case 'parameters':
      return oneOf([{}, { a: 'x', b: null, c: 7 }, { a: makeMapping(type.table, kind, random) }], random);
    case 'param-texts':
      return oneOf([{}, { a: 'x', 'b.c': '${{ input.a }}' }, { a: 7, b: true }], random);
    case 'list':
      if (type.alone === true && random(2) === 0) return make(type.of, kind, random);
      return some(type.filled === undefined ? 0 : 1, () => make(type.of, kind, random), random);
    case 'stages':
      return some(1, () => makeMapping(type.table, kind, random), random);
    case 'parts': {
      const chosen = oneOf(SECTION_KINDS, random);
      const keys = Object.entries(type.table.keys).filter(
        ([name, { group }]) => group === undefined || name === chosen,
      );
      return oneOf([{}, { a: makeMapping({ keys: Object.fromEntries(keys) }, chosen, random) }], random);
    }
    case 'mapping':
    case 'section':
      return makeMapping(type.table, kind, random);
    case 'forms': {
      if (random(2) === 0) return `${oneOf(type.prefixes, random)}:x`;
      return makeMapping(oneOf(Object.values(type.tables), random), kind, random);
    }
    case 'variants': {
      const [word, table] = oneOf(Object.entries(type.tables), random);
      return { [type.by.key]: word, ...makeMapping(table, kind, random) };
    }
  }
}

/** Returns every mapping and list in a value. */
function holders(value: unknown): readonly (Record<string, unknown> | unknown[])[] {
  if (typeof value !== 'object' || value === null) return [];
  return [value as Record<string, unknown> | unknown[], ...Object.values(value).flatMap(holders)];
}

/** Returns a copy, because the next damage may change it. */
function junk(random: Random): unknown {
  return structuredClone(oneOf(JUNK, random));
}

function damage(spec: unknown, random: Random): void {
  const holder = oneOf(holders(spec), random) as Record<string, unknown>;
  const name = oneOf(Object.keys(holder), random);
  if (name === undefined || random(5) === 0)
    holder[Array.isArray(holder) ? '0' : oneOf(['zzz', 'x-zzz', 'depends_on', 'name', 'prompt'], random)] =
      junk(random);
  else if (random(4) === 0 && !Array.isArray(holder)) delete holder[name];
  else holder[name] = junk(random);
}

const validate = compileEditorSchema(createSpecSchema());

function isClean(spec: unknown): boolean {
  return parseSpec(JSON.stringify(spec), 'x.json').diagnostics.length === 0;
}

test.each(PLAN_KINDS)('the reader and the schema both accept a spec that the tables allow for the kind %s', (kind) => {
  const random = createRandom(3);
  for (let round = 0; round < ROUNDS; round += 1) {
    const spec = { ...makeMapping(SPEC, kind, random), kind };
    expect({ spec, reader: isClean(spec), schema: validate(spec) }).toEqual({ spec, reader: true, schema: true });
  }
});

test('the reader and the schema agree on a damaged spec', () => {
  const random = createRandom(5);
  let refused = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const kind = oneOf(PLAN_KINDS, random);
    const spec = JSON.parse(JSON.stringify({ ...makeMapping(SPEC, kind, random), kind })) as unknown;
    for (let cuts = 1 + random(2); cuts > 0; cuts -= 1) damage(spec, random);
    const reader = isClean(spec);
    if (!reader) refused += 1;
    expect({ spec, schema: validate(spec) }).toEqual({ spec, schema: reader });
  }
  expect(refused).toBeGreaterThan(ROUNDS / 3);
  expect(refused).toBeLessThan(ROUNDS);
});
