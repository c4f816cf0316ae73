// oxlint-disable typescript/no-explicit-any -- plans that break their type are the subject
/** The description of a Plan suffices for a reader that Voidbox does not have: a schema of OpenAPI, in agreement with the check. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import type { Plan } from '../domain/plan/plan.ts';
import type { DifferentKeys } from '../domain/plan/description.ts';
import { PLAN_PARTS } from '../domain/plan/plan-description.ts';
import { toWire } from '../domain/plan/wire.ts';
import { planSchema } from '../domain/language/plan-schema.ts';
import { planFormats, planOpenApi } from './rig/openapi/plan-openapi.ts';

type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
type Path = readonly (string | number)[];

const SPECS = join(import.meta.dirname, 'spec');
/** Small ones first: each place is changed in the first plan that has it. */
const PLANS = readdirSync(SPECS)
  .filter((name) => existsSync(join(SPECS, name, 'plan.json')))
  .map((name) => [name, readFileSync(join(SPECS, name, 'plan.json'), 'utf8')] as const)
  .toSorted(([, one], [, other]) => one.length - other.length)
  .map(([name, text]) => [name, JSON.parse(text) as Json] as const);

const DOCUMENT = planOpenApi();
const ajv = new Ajv2020({
  strict: false,
  formats: Object.fromEntries([...planFormats()].map(([name, validate]) => [name, { type: 'string', validate }])),
});
ajv.addSchema(DOCUMENT, 'plans');
const isPlan = ajv.compile({ $ref: 'plans#/components/schemas/Plan' });

/** A copy of JSON with a change at a path. */
function changed(plan: Json, path: Path, change: (parent: any, key: string | number) => void): Json {
  const copy = structuredClone(plan);
  const parent = path.slice(0, -1).reduce((value: any, key) => value[key], copy);
  change(parent, path.at(-1)!);
  return copy;
}

function* pathsIn(value: Json, at: Path = []): Generator<Path> {
  if (typeof value !== 'object' || value === null) return;
  for (const [key, each] of Object.entries(value)) {
    yield [...at, key];
    yield* pathsIn(each, [...at, key]);
  }
}

/** A place, whatever the stage or mount, with the kinds on the way to it. */
function placeOf(plan: Json, path: Path): string {
  let value = plan as any;
  return path
    .map((key) => {
      value = value[key];
      const kind = typeof value === 'object' && value !== null && !Array.isArray(value) ? value.kind : undefined;
      return `${/^\d+$/.test(String(key)) ? '#' : key}${kind === undefined ? '' : `:${kind}`}`;
    })
    .join('.');
}

/** Keys whose values are JSON of an author, which the schema accepts as it is. */
const AUTHORS_JSON = /(?:^|\.)(?:params|outputSchema|items)(?:\.|$)/;

const VALUES: readonly Json[] = [
  null,
  true,
  false,
  -1,
  0,
  7,
  1.5,
  1e300,
  '',
  'x',
  '..',
  '/a/../b',
  '\0',
  '-',
  'x'.repeat(5_000),
  [],
  [1],
  {},
  { kind: 'none' },
];
const CHANGES: readonly [string, (parent: any, key: string | number) => void][] = [
  ...VALUES.map((value): [string, (parent: any, key: string | number) => void] => [
    JSON.stringify(value).slice(0, 20),
    (parent, key) => (parent[key] = structuredClone(value)),
  ]),
  ['deleted', (parent, key) => (Array.isArray(parent) ? parent.splice(Number(key), 1) : delete parent[key])],
  [
    'with a key',
    (parent, key) =>
      typeof parent[key] === 'object' && parent[key] !== null && (parent[key] = { ...parent[key], extra: 1 }),
  ],
  [
    'with __proto__',
    (parent, key) =>
      typeof parent[key] === 'object' &&
      parent[key] !== null &&
      Object.defineProperty(parent[key], '__proto__', { value: 1, enumerable: true }),
  ],
];

test('golden plans fit the schema, with their defaults and as they travel', () => {
  expect(PLANS.length).toBeGreaterThan(50);
  for (const [name, plan] of PLANS)
    for (const form of [plan, JSON.parse(JSON.stringify(toWire(plan as unknown as Plan)))]) {
      expect(isPlan(form), `${name}: ${ajv.errorsText(isPlan.errors)}`).toBe(true);
    }
});

test('golden plans hold each field of the description', () => {
  const found = new Set(PLANS.flatMap(([, plan]) => [...pathsIn(plan)].map((path) => String(path.at(-1)))));
  const missing = Object.keys({ ...PLAN_PARTS.Stage.fields, ...PLAN_PARTS.Scope.fields, ...PLAN_PARTS.Sandbox.fields });
  expect(missing.filter((key) => !found.has(key))).toEqual([]);
});

test('changed plans are refused by the schema if and only if the check of plans refuses their shape', () => {
  const seen = new Set<string>();
  const differences: string[] = [];
  const counts = { accepted: 0, refused: 0 };
  for (const [name, plan] of PLANS)
    for (const path of pathsIn(plan)) {
      const place = placeOf(plan, path);
      if (seen.has(place) || AUTHORS_JSON.test(place)) continue;
      seen.add(place);
      for (const [what, change] of CHANGES) {
        const other = changed(plan, path, change);
        const { success } = planSchema.safeParse(other);
        counts[success ? 'accepted' : 'refused'] += 1;
        if (isPlan(other) !== success) differences.push(`${name} ${place} ${what}: ${ajv.errorsText(isPlan.errors)}`);
      }
    }
  expect(differences).toEqual([]);
  expect(counts.refused).toBeGreaterThan(2_000);
  expect(counts.accepted).toBeGreaterThan(300);
});

describe('the compiler finds a difference between a description and a type', () => {
  interface Both {
    readonly id: string;
    readonly kind: 'a' | 'b';
    readonly note?: string | undefined;
  }
  type Keys<T> = DifferentKeys<Both, T, never[]>;
  const nothing = <K>(...keys: [K] extends [never] ? [] : [K]): number => keys.length;

  test('in a field, a word, and whether a field may be absent', () => {
    expect(nothing<Keys<Both>>()).toBe(0);
    // Each argument is the only one that compiles.
    expect(nothing<Keys<Omit<Both, 'note'>>>('note')).toBe(1);
    expect(nothing<Keys<Both & { readonly more: 1 }>>('more')).toBe(1);
    expect(nothing<Keys<Omit<Both, 'kind'> & { readonly kind: 'a' }>>('kind')).toBe(1);
    expect(nothing<Keys<Omit<Both, 'note'> & { readonly note: string | undefined }>>('note')).toBe(1);
    expect(nothing<Keys<Omit<Both, 'id'> & { readonly id: string | null }>>('id')).toBe(1);
  });
});
