/**
 * Walks the tables: every key must be read, documented and known to editors, and its default must equal its absence.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { compileEditorSchema } from '../../../test/rig/skills/editor-schema.ts';
import { checkExpressions } from '../expression/check.ts';
import { type CompiledText, compileText, type LoadOptions } from '../load.ts';
import { parseSpec } from '../read/parse.ts';
import { checkPlan } from '../check-plan.ts';
import { createSpecSchema } from './json-schema.ts';
import { BUDGET, LLM } from './agent-table.ts';
import { WORKSPACE } from './workspace-table.ts';
import { APPROVAL } from './approval-table.ts';
import { WAIT } from './wait-table.ts';
import { SANDBOX } from './sandbox-table.ts';
import { SKILL } from './skill-table.ts';
import { SPEC } from './spec-table.ts';
import { FOLDER, OUTBOX } from './trigger-folder-tables.ts';
import { QUEUE } from './trigger-queue-table.ts';
import { SCHEDULE, WEBHOOK } from './trigger-source-tables.ts';
import { RECEIVER } from './notify-table.ts';
import { TRIGGER } from './trigger-table.ts';
import type { Json, JsonType } from './json.ts';
import { isAllowedBeside, type Key, type MappingTable, type ValueType } from './table.ts';
import { type PlanKind, PLAN_KINDS } from '../../plan/plan.ts';

type Mapping = Record<string, unknown>;

/** One key, and the way to the mapping that holds it in a spec of a kind. */
interface Spot {
  readonly kind: PlanKind;
  readonly name: string;
  readonly key: Key;
  readonly table: MappingTable;
  /** The path as docs/reference/spec.md writes it: a mapping with a table of its own begins a new path. */
  readonly path: string;
  readonly title: string;
  readonly mapping: (spec: Mapping) => Mapping;
}

const STAGE_INDEX = 3;

/** Returns a spec that contains every name to which examples refer. */
function baseSpec(kind: PlanKind): Mapping {
  if (kind === 'sandbox') return { kind, name: 'base' };
  if (kind === 'agent') return { kind, name: 'base', agent: { prompt: 'x' } };
  const stage = (name: string): Mapping => ({ name, run: { program: 'true' } });
  const agent = { name: 'right', prompt: 'x' };
  const stages = [{ ...stage('fetch'), outputs: [{ name: 'tables' }] }, stage('left'), agent, stage('report')];
  return {
    kind,
    name: 'base',
    [kind]: kind === 'workflow' ? { steps: stages, output_step: 'report' } : { boxes: stages },
  };
}

/** The prefix of a mapping's keys: in the docs, where some mappings begin a new path, and from the top of a spec. */
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
    // If the key is absent, its example makes room for the keys below it.
    const value = (spec: Mapping): unknown => {
      const holder = mapping(spec);
      makeRoom(holder, table, name);
      return (holder[name] ??= structuredClone(key.example));
    };
    const here = { docs: `${docs}${name}`, full: `${full}${name}` };
    return [
      { kind, name, key, table, path: here.docs, title: `${kind}: ${here.full}`, mapping },
      ...spotsBelow(key.type, kind, here, value),
    ];
  });
}

/** Removes keys that exclude the key, or that it excludes. */
function removeExcluded(holder: Mapping, { keys }: MappingTable, name: string): void {
  const { excludes = [] } = keys[name]!;
  for (const [other, key] of Object.entries<Key>(keys))
    if (excludes.includes(other) || key.excludes?.includes(name) === true) delete holder[other];
}

/** Removes the other keys of the group, and adds the key that this one needs. */
function makeRoom(holder: Mapping, table: MappingTable, name: string): void {
  const { group, goesWith: others } = table.keys[name]!;
  if (group !== undefined) return removeOthers(holder, table, name);
  const beside = others?.[0];
  if (others === undefined || beside === undefined || !(beside in table.keys)) return;
  if (others.some((other) => other in holder)) return;
  removeOthers(holder, table, beside);
  holder[beside] ??= structuredClone(table.keys[beside]!.example);
}

function removeOthers(holder: Mapping, { keys }: MappingTable, name: string): void {
  const { group } = keys[name]!;
  for (const [other, key] of Object.entries<Key>(keys))
    if (other !== name && (key.group === group || !isAllowedBeside(key, name))) delete holder[other];
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
  if (type.is === 'mapping') {
    const { table } = type;
    const isApart =
      (
        [
          SANDBOX,
          APPROVAL,
          WAIT,
          BUDGET,
          LLM,
          SKILL,
          WEBHOOK,
          SCHEDULE,
          FOLDER,
          OUTBOX,
          QUEUE,
        ] as readonly MappingTable[]
      ).includes(table) || table.keys['subfolder'] === WORKSPACE.keys.subfolder;
    // Defaults share the keys of a stage.
    const shared = { docs: inline.docs.replace(/^defaults\./, ''), full: inline.full };
    return spotsOf(table, kind, isApart ? apart : shared, within);
  }
  if (type.is === 'command') {
    const mapping = (spec: Mapping): Mapping => {
      const found = within(spec) as unknown;
      // The stages of `baseSpec` have mappings.
      if (typeof found !== 'object') throw new Error(`${full} has no mapping`);
      return found as Mapping;
    };
    return spotsOf(type.table, kind, inline, mapping);
  }
  // Sections of a part have the tables of sections.
  if (type.is === 'section' && full.startsWith('parts.')) return [];
  if (type.is === 'section') return spotsOf(type.table, kind, apart, within);
  if (type.is === 'stages') return spotsOf(type.table, kind, apart, item(STAGE_INDEX));
  if (type.is === 'parameters') {
    const rows = (spec: Mapping): Mapping => within(spec)['rows'] as Mapping;
    return spotsOf(type.table, kind, { docs: '', full: `${full}.NAME.` }, rows);
  }
  // Test parts in one kind only, because a part has a kind of its own.
  if (type.is === 'parts' && kind !== 'workflow') return [];
  if (type.is === 'parts') {
    const checks = (spec: Mapping): Mapping => within(spec)['checks'] as Mapping;
    return spotsOf(type.table, kind, { docs: '', full: `${full}.NAME.` }, checks);
  }
  if (type.is !== 'list') return [];
  // The example has one item of each variant or form, in their order.
  const tables =
    type.of.is === 'variants' || type.of.is === 'forms'
      ? Object.entries(type.of.tables)
      : type.of.is === 'mapping'
        ? [['', type.of.table] as const]
        : [];
  const docsOf = (table: MappingTable): string =>
    type.of.is === 'forms' ? 'skills[].' : table === TRIGGER || table === RECEIVER ? '' : `${docs}[].`;
  return tables.flatMap(([word, table], index) =>
    spotsOf(table, kind, { docs: docsOf(table), full: `${full}[${word}].` }, item(index)),
  );
}

const SPOTS = PLAN_KINDS.flatMap((kind) => spotsOf(SPEC, kind, { docs: '', full: '' }, (spec) => spec));

test('each key is tested in one place', () => {
  expect(new Set(SPOTS.map(({ title }) => title)).size).toBe(SPOTS.length);
});

const validate = compileEditorSchema(createSpecSchema());

/** Returns the spec with a key set, or without the key. */
function specWith({ kind, name, key, table, mapping }: Spot, value: Json | undefined): Mapping {
  const spec = baseSpec(kind);
  const holder = mapping(spec);
  removeExcluded(holder, table, name);
  if (value !== undefined || key.group === undefined) makeRoom(holder, table, name);
  if (value === undefined) delete holder[name];
  else {
    holder[name] = structuredClone(value);
  }
  const { needs } = table.keys[name]!;
  if (needs !== undefined) {
    removeExcluded(holder, table, needs);
    holder[needs] = structuredClone(table.keys[needs]!.example);
  }
  return spec;
}

function messagesOf(spec: Mapping): readonly string[] {
  return parseSpec(JSON.stringify(spec), 'x.json').diagnostics.map(({ message }) => message);
}

function takes({ shapes }: JsonType, shape: string): boolean {
  return (shapes as readonly string[]).includes(shape);
}

function otherShape(type: ValueType): Json {
  if (type.is === 'list' || type.is === 'stages') return 7;
  return type.is === 'json' && !takes(type, 'object') ? { x: 'y' } : [['x']];
}

const PAGE = ['spec', 'triggers', 'notifications']
  .map((name) => readFileSync(new URL(`../../../docs/reference/${name}.md`, import.meta.url), 'utf8'))
  .join('\n');

describe.each(SPOTS)('$title', (spot) => {
  const { kind, key, name } = spot;

  test('the example of the key is read and known to editors', () => {
    const spec = specWith(spot, key.example);
    // `kind: workflow` appears only once in a spec.
    if (name === 'kind' && kind !== key.example) return;
    expect(messagesOf(spec)).toEqual([]);
    expect(validate(spec), JSON.stringify(validate.errors)).toBe(true);
  });

  test('the reader and editors reject a value of another shape', () => {
    // This type allows any JSON.
    if (key.type.is === 'json' && takes(key.type, 'object') && takes(key.type, 'array')) return;
    const spec = specWith(spot, otherShape(key.type));
    expect(messagesOf(spec)).toContainEqual(expect.stringContaining(key.called ?? `\`${name}\``));
    expect(validate(spec)).toBe(false);
  });

  test('docs/reference lists the key', () => {
    const firstCells = PAGE.split('\n').map((line) => /^\| ([^|]*)\|/.exec(line)?.[1] ?? '');
    expect(firstCells).toContainEqual(expect.stringContaining(`\`${spot.path}\``));
  });
});

test.each(SPOTS.filter(({ key }) => key.required === true))(
  '$title: the reader and editors reject a spec without it',
  (spot) => {
    const spec = specWith(spot, undefined);
    expect(messagesOf(spec)).toContainEqual(expect.stringMatching(`(?:has no |must have one of .*)\`${spot.name}\``));
    expect(validate(spec)).toBe(false);
  },
);

/** Compiles a spec without `spec/part-unused`, because no stage uses the part whose keys are tested. */
function compiled(text: string, options: LoadOptions): Pick<CompiledText, 'plan' | 'triggers' | 'diagnostics'> {
  const { plan, triggers, diagnostics } = compileText(text, 'x.json', options);
  return { plan, triggers, diagnostics: diagnostics.filter(({ code }) => code !== 'spec/part-unused') };
}

/** The file that the example of `uses` names. */
const PART = `{ kind: workflow, name: part, params: { branch: '' }, workflow: { steps: [{ name: a, run: { program: a } }] } }`;

/** Each key with all mistaken words for it: words of other systems, and other spellings of its own name. */
const MISTAKEN = SPOTS.flatMap((spot) => {
  const camel = spot.name.replace(/_(.)/g, (_all, letter: string) => letter.toUpperCase());
  const words = [...(spot.key.mistaken ?? []), ...(camel === spot.name ? [] : [camel, spot.name.replaceAll('_', '-')])];
  return words.map((word) => ({ ...spot, word }));
});

test.each(MISTAKEN)('$title: written as `$word`, it is the only error, and the message names the key', (spot) => {
  const spec = specWith(spot, undefined);
  spot.mapping(spec)[spot.word] = structuredClone(spot.key.example);
  const { diagnostics } = compiled(JSON.stringify(spec), {
    baseDir: '/',
    checkExpression: checkExpressions,
    readSpec: () => ({ text: PART }),
  });
  expect(diagnostics.map(({ severity, code }) => [severity, code])).toEqual([['error', 'spec/wrong-key']]);
  expect(diagnostics[0]!.message).toMatch(
    new RegExp(`^\`${spot.word}\` is not a key of .*; did you mean \`${spot.name}\`\\?$`),
  );
});

test.each(SPOTS.filter(({ key }) => key.default !== undefined))(
  '$title: its written default changes nothing',
  (spot) => {
    const planOf = (spec: Mapping): Pick<CompiledText, 'plan' | 'triggers' | 'diagnostics'> =>
      compiled(JSON.stringify(spec), { baseDir: '/', params: {}, checkExpression: checkExpressions });
    const written = planOf(specWith(spot, spot.key.default));
    expect(written.diagnostics).toEqual([]);
    const absent = planOf(specWith(spot, undefined));
    expect([written.plan, written.triggers]).toEqual([absent.plan, absent.triggers]);
  },
);

describe.each(SPOTS.filter(({ key }) => key.type.is === 'number'))('$title', (spot) => {
  const range = spot.key.type.is === 'number' ? spot.key.type.range : null!;

  test.each([range.min, range.max])('the reader, editors and a plan accept %s, which is in the range', (value) => {
    const spec = specWith(spot, value);
    // The cost limit of a run needs prices, but this model costs nothing.
    if (spot.path === 'max_cost_usd') spec['llm'] = { provider: 'ollama' };
    const { plan, diagnostics } = compiled(JSON.stringify(spec), {
      baseDir: '/',
      checkExpression: checkExpressions,
    });
    // The least memory is allowed, but causes a warning; so does a time that has no effect.
    const others = diagnostics.filter(
      ({ code, message }) => code !== 'spec/little-memory' && !message.startsWith('`keep_secs` without'),
    );
    expect(others).toEqual([]);
    expect(validate(spec), JSON.stringify(validate.errors)).toBe(true);
    expect(checkPlan(JSON.parse(JSON.stringify(plan)))).toEqual({ plan });
  });

  test.each([
    range.integer ? range.min - 1 : range.min - 0.0005,
    range.max + 1,
    ...(range.integer ? [range.min + 0.5] : []),
  ])('the reader and editors reject %s, which is not in the range', (value) => {
    const spec = specWith(spot, value);
    expect(messagesOf(spec)).toEqual([expect.stringContaining(`\`${spot.name}\``)]);
    expect(validate(spec)).toBe(false);
  });
});

test.each(SPOTS.filter(({ key }) => key.kinds !== undefined))('$title: a spec of the other kind lacks it', (spot) => {
  const other = PLAN_KINDS.find((each) => !spot.key.kinds!.includes(each))!;
  const spec = baseSpec(other);
  const stages = (): Mapping =>
    ((spec[other] as Mapping)[other === 'workflow' ? 'steps' : 'boxes'] as Mapping[])[STAGE_INDEX]!;
  (spot.path in SPEC.keys ? spec : stages())[spot.name] = spot.key.example;
  expect(messagesOf(spec)).toEqual([expect.stringContaining(spot.name)]);
  expect(validate(spec)).toBe(false);
});
