import { expect, test } from 'vitest';
import { SPEC } from '../domain/spec/grammar/spec-table.ts';
import type { Key, MappingTable, ValueType } from '../domain/spec/grammar/table.ts';
import type { PlanKind } from '../domain/plan/plan.ts';
import { box, type Definition, definePipeline, defineWorkflow, fanOut, step } from './index.ts';

/** Nothing can be said by them: only `false` is allowed. */
const WITHOUT_MEANING = /(^|\.)network$/;

function pathsOf({ keys }: MappingTable, kind: PlanKind, prefix = ''): readonly string[] {
  return Object.entries<Key>(keys)
    .filter(([, key]) => key.kinds === undefined || key.kinds.includes(kind))
    .flatMap(([name, key]) => [`${prefix}${name}`, ...pathsBelow(key.type, kind, `${prefix}${name}`)]);
}

function pathsBelow(type: ValueType, kind: PlanKind, path: string): readonly string[] {
  if (type.is === 'list') return pathsBelow(type.of, kind, path);
  if (type.is === 'variants') return Object.values(type.tables).flatMap((table) => pathsOf(table, kind, `${path}.`));
  if (type.is === 'parameters') return pathsOf(type.table, kind, `${path}.rows.`);
  return 'table' in type ? pathsOf(type.table, kind, `${path}.`) : [];
}

/** Paths of all keys that a value has, lists left out. */
function written(value: unknown, prefix = ''): readonly string[] {
  if (Array.isArray(value)) return value.flatMap((item) => written(item, prefix));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, each]) => [`${prefix}${name}`, ...written(each, `${prefix}${name}.`)]);
}

const sandbox = {
  mode: 'qemu',
  isolation: 'process',
  memoryMib: 1_024,
  vcpus: 2,
  diskMib: 4_096,
  env: { LANG: 'C' },
  mounts: [{ host: 'data', guest: '/data', mode: 'ro' }],
} as const;
const common = { name: 'all', params: { rows: { default: 1, description: 'how many' } }, sandbox, maxParallel: 2 };
const stage = {
  cwd: '/data',
  env: { LANG: 'C' },
  outputs: { tables: '/workspace/tables' },
  outputFile: '/workspace/report.json',
  timeoutMs: 1_000,
  retry: { maxAttempts: 2, backoffMs: 1_000 },
  maxOutputMib: 1,
  sandbox,
};

test.each<[PlanKind, () => Definition]>([
  [
    'workflow',
    () => {
      const first = step('first', ['true'], stage);
      const inputs = [{ from: first.output('tables'), guest: '/workspace/in' }];
      const last = step('last', ['cat', '-'], { ...stage, inputs, stdinFrom: first, dependsOn: [first] });
      return defineWorkflow({ ...common, steps: [first, last], output: last });
    },
  ],
  [
    'pipeline',
    () => {
      const first = box('first', ['true'], stage);
      const inputs = [{ from: first.output('tables'), guest: '/workspace/in' }];
      const last = box('last', ['cat', '-'], { ...stage, inputs, stdinFrom: first });
      return definePipeline({ ...common, stages: [first, fanOut([last], { name: 'tables' })], output: last });
    },
  ],
])('whatever a spec of the kind %s can say can be said in TypeScript', (kind, define) => {
  const { source } = define();
  const said = new Set(written(JSON.parse(source)));
  expect(pathsOf(SPEC, kind).filter((path) => !said.has(path) && !WITHOUT_MEANING.test(path))).toEqual([]);
});
