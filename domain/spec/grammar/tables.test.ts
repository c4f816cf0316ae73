/** Walks the tables: whatever key is added there is read, documented, known to editors, and means its default where it is left out. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { compileEditorSchema } from '../../../test/rig/editor-schema.ts';
import { compileText } from '../load.ts';
import { parseSpec } from '../parse.ts';
import { checkPlan } from '../plan-schema.ts';
import { specSchema } from './json-schema.ts';
import { SANDBOX } from './sandbox-table.ts';
import { SPEC } from './spec-table.ts';
import type { Json, Key, MappingTable, ValueType } from './table.ts';
import { type PlanKind, PLAN_KINDS } from '../../plan/plan.ts';

type Mapping = Record<string, unknown>;

/** One key, and how to come to the mapping that holds it in a spec of a kind. */
interface Spot {
  readonly kind: PlanKind;
  readonly name: string;
  readonly key: Key;
  /** As docs/spec.md writes it: a mapping with a place of its own begins anew. */
  readonly path: string;
  readonly title: string;
  readonly mapping: (spec: Mapping) => Mapping;
}

const STAGE_INDEX = 3;

/** A spec in which every name stands that examples refer to. */
function baseSpec(kind: PlanKind): Mapping {
  const stage = (name: string): Mapping => ({ name, run: { program: 'true' } });
  const stages = [{ ...stage('fetch'), outputs: [{ name: 'tables' }] }, stage('left'), stage('right'), stage('report')];
  return {
    kind,
    name: 'base',
    [kind]: kind === 'workflow' ? { steps: stages, output_step: 'report' } : { boxes: stages },
  };
}

/** Of a mapping: in the docs, where some begin anew, and from the top of a spec. */
interface Prefix {
  readonly docs: string;
  readonly full: string;
}

function spotsOf(
  table: MappingTable,
  kind: PlanKind,
  { docs, full }: Prefix,
  mapping: Spot['mapping'],
): readonly Spot[] {
  return Object.entries<Key>(table.keys).flatMap(([name, key]) => {
    if (key.kinds !== undefined && !key.kinds.includes(kind)) return [];
    // Where the key is not there, its example gives what lies below it a place.
    const value = (spec: Mapping): unknown => (mapping(spec)[name] ??= structuredClone(key.example));
    const here = { docs: `${docs}${name}`, full: `${full}${name}` };
    return [
      { kind, name, key, path: here.docs, title: `${kind}: ${here.full}`, mapping },
      ...spotsBelow(key.type, kind, here, value),
    ];
  });
}

function spotsBelow(
  type: ValueType,
  kind: PlanKind,
  { docs, full }: Prefix,
  value: (spec: Mapping) => unknown,
): readonly Spot[] {
  const within = (spec: Mapping): Mapping => value(spec) as Mapping;
  const item = (index: number) => (spec: Mapping) => (value(spec) as Mapping[])[index]!;
  const inline = { docs: `${docs}.`, full: `${full}.` };
  const apart = { docs: '', full: `${full}.` };
  if (type.is === 'mapping') return spotsOf(type.table, kind, type.table === SANDBOX ? apart : inline, within);
  if (type.is === 'section') return spotsOf(type.table, kind, apart, within);
  if (type.is === 'stages') return spotsOf(type.table, kind, apart, item(STAGE_INDEX));
  if (type.is === 'parameters') {
    const rows = (spec: Mapping): Mapping => within(spec)['rows'] as Mapping;
    return spotsOf(type.table, kind, { docs: `${docs}.NAME.`, full: `${full}.NAME.` }, rows);
  }
  if (type.is !== 'list') return [];
  // The example has one item of each variant, in their order.
  const tables =
    type.of.is === 'variants'
      ? Object.entries(type.of.tables)
      : type.of.is === 'mapping'
        ? [['', type.of.table] as const]
        : [];
  return tables.flatMap(([word, table], index) =>
    spotsOf(table, kind, { docs: `${docs}[].`, full: `${full}[${word}].` }, item(index)),
  );
}

const SPOTS = PLAN_KINDS.flatMap((kind) => spotsOf(SPEC, kind, { docs: '', full: '' }, (spec) => spec));

test('each key is looked at in one place', () => {
  expect(new Set(SPOTS.map(({ title }) => title)).size).toBe(SPOTS.length);
});

const validate = compileEditorSchema(specSchema());

/** The spec with a key set, or with it taken out. */
function specWith({ kind, name, mapping }: Spot, value: Json | undefined): Mapping {
  const spec = baseSpec(kind);
  const holder = mapping(spec);
  if (value === undefined) delete holder[name];
  else holder[name] = structuredClone(value);
  return spec;
}

function messagesOf(spec: Mapping): readonly string[] {
  return parseSpec(JSON.stringify(spec), 'x.json').diagnostics.map(({ message }) => message);
}

describe.each(SPOTS)('$title', (spot) => {
  const { kind, key, name } = spot;

  test('its example is read and known to editors', () => {
    const spec = specWith(spot, key.example);
    // A spec says `kind: workflow` in one place only.
    if (name === 'kind' && kind !== key.example) return;
    expect(messagesOf(spec)).toEqual([]);
    expect(validate(spec), JSON.stringify(validate.errors)).toBe(true);
  });

  test('a value of another shape is refused by both', () => {
    const spec = specWith(spot, key.type.is === 'list' || key.type.is === 'stages' ? 7 : [['x']]);
    expect(messagesOf(spec)).toContainEqual(expect.stringContaining(key.called ?? `\`${name}\``));
    expect(validate(spec)).toBe(false);
  });

  test('it stands in docs/spec.md', () => {
    expect(readFileSync(new URL('../../../docs/spec.md', import.meta.url), 'utf8')).toContain(`\n| \`${spot.path}\``);
  });
});

test.each(SPOTS.filter(({ key }) => key.required === true))(
  '$title: without it the spec is refused by both',
  (spot) => {
    const spec = specWith(spot, undefined);
    expect(messagesOf(spec)).toContainEqual(expect.stringMatching(`has no \`${spot.name}\``));
    expect(validate(spec)).toBe(false);
  },
);

test.each(SPOTS.filter(({ key }) => key.default !== undefined))(
  '$title: written, its default changes nothing',
  (spot) => {
    const planOf = (spec: Mapping) => compileText(JSON.stringify(spec), 'x.json', { baseDir: '/', params: {} });
    const written = planOf(specWith(spot, spot.key.default));
    expect(written.diagnostics).toEqual([]);
    expect(written.plan).toEqual(planOf(specWith(spot, undefined)).plan);
  },
);

describe.each(SPOTS.filter(({ key }) => key.type.is === 'number'))('$title', (spot) => {
  const range = spot.key.type.is === 'number' ? spot.key.type.range : null!;

  test.each([range.min, range.max])('%s is in its range: for the reader, for editors, in a plan', (value) => {
    const spec = specWith(spot, value);
    const { plan, diagnostics } = compileText(JSON.stringify(spec), 'x.json', { baseDir: '/' });
    expect(diagnostics).toEqual([]);
    expect(validate(spec), JSON.stringify(validate.errors)).toBe(true);
    expect(checkPlan(JSON.parse(JSON.stringify(plan)))).toEqual({ plan });
  });

  test.each([
    range.integer ? range.min - 1 : range.min - 0.0005,
    range.max + 1,
    ...(range.integer ? [range.min + 0.5] : []),
  ])('%s is not', (value) => {
    const spec = specWith(spot, value);
    expect(messagesOf(spec)).toEqual([expect.stringContaining(`\`${spot.name}\``)]);
    expect(validate(spec)).toBe(false);
  });
});

test.each(SPOTS.filter(({ key }) => key.kinds !== undefined))('$title: a spec of the other kind has it not', (spot) => {
  const other = PLAN_KINDS.find((each) => each !== spot.kind)!;
  const spec = baseSpec(other);
  const stages = ((spec[other] as Mapping)[other === 'workflow' ? 'steps' : 'boxes'] as Mapping[])[STAGE_INDEX]!;
  (spot.path in SPEC.keys ? spec : stages)[spot.name] = spot.key.example;
  expect(messagesOf(spec)).toEqual([expect.stringContaining(spot.name)]);
  expect(validate(spec)).toBe(false);
});
