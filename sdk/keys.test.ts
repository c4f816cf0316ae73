import { expect, test } from 'vitest';
import * as z from 'zod';
import { SPEC } from '../domain/language/grammar/spec-table.ts';
import type { Key, MappingTable, ValueType } from '../domain/language/grammar/table.ts';
import type { PlanKind } from '../domain/plan/plan.ts';
import {
  agentBox,
  agentStep,
  approval,
  box,
  type Definition,
  definePipeline,
  defineWorkflow,
  fanOut,
  loop,
  part,
  skillBox,
  skillStep,
  step,
  type TriggerOptions,
  wait,
} from './index.ts';

function pathsOf({ keys }: MappingTable, kind: PlanKind, prefix = ''): readonly string[] {
  return Object.entries<Key>(keys)
    .filter(([, key]) => key.kinds === undefined || key.kinds.includes(kind))
    .flatMap(([name, key]) => [`${prefix}${name}`, ...pathsBelow(key.type, kind, `${prefix}${name}`)]);
}

function pathsBelow(type: ValueType, kind: PlanKind, path: string): readonly string[] {
  if (type.is === 'list') return pathsBelow(type.of, kind, path);
  if (type.is === 'variants' || type.is === 'forms')
    return Object.values(type.tables).flatMap((table) => pathsOf(table, kind, `${path}.`));
  if (type.is === 'parameters') return pathsOf(type.table, kind, `${path}.rows.`);
  // A part contains a definition, whose keys are all checked separately.
  if (type.is === 'parts') return [];
  return 'table' in type ? pathsOf(type.table, kind, `${path}.`) : [];
}

/** Lists the paths of all keys that a value has, without indexes of lists. */
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
  mounts: [{ host: 'data', guest: '/data', mode: 'rw', git: 'writable' }],
  network: false,
  egress: { allow: ['npm'], deny: ['a'] },
  services: { db: '127.0.0.1:5432' },
  keep: 'on-failure',
  keepMs: 600_000,
  image: 'a',
  guestImage: 'b',
  kernel: 'c',
  initramfs: 'd',
  snapshot: 'e',
} as const;
const rows = { type: 'choice', default: 1, description: 'how many', min: 1, max: 2, choices: [1] } as const;
const retry = {
  maxAttempts: 2,
  backoffMs: 1_000,
  initialMs: 1_000,
  maxMs: 60_000,
  backoff: 2,
  nonRetryable: ['exit:2'],
};
const defaults = { env: { LANG: 'C' }, timeoutMs: 1_000, maxOutputMib: 1, retry };
const llm = {
  provider: 'custom',
  model: 'm',
  baseUrl: 'http://x',
  apiKeyEnv: 'KEY',
  credentialProxy: true,
  price: { input: 1, cachedInput: 0.5, output: 2 },
} as const;
const budget = { maxCostUsd: 1, maxTokens: 1_000, maxTurns: 2 } as const;
const skills = [
  'file:x.md',
  { image: 'a', mount: '/skills/a', readonly: true },
  { command: 'c', args: ['x'], env: { LANG: 'C' } },
  { name: 'd', content: 'x' },
] as const;
const HMAC = {
  header: 'X-Signature',
  prefix: 'v1=',
  algorithm: 'sha512',
  encoding: 'base64',
  timestamp: 'X-Time',
} as const;
const notify = {
  notify: [
    { name: 'a', states: ['failed', 'late'], webhook: { url: 'https://x.example', secret: 'S' } },
    { name: 'b', states: ['asking'], as: 'ann', slack: { secret: 'S' } },
    { name: 'c', states: ['budget'], cloudevents: { url: 'https://x.example', token: 'S', mode: 'binary' } },
  ],
  lateAfterMs: 60_000,
  waitingAfterMs: 60_000,
} as const;
const respond = { waitMs: 10_000, status: 201 };

/** @param output  the stage whose output is an answer */
const on = (output: { readonly name: string }): readonly TriggerOptions[] => [
  {
    name: 'hook',
    webhook: { verify: HMAC, secret: 'TOKEN', format: 'cloudevents', respond: { ...respond, output } },
    when: 'input.ok',
    params: { rows: 1 },
    input: '${{ input.text }}',
    dedupe: { key: '${{ input.id }}', forMs: 60_000 },
    debounce: { key: 'a', delayMs: 1_000, maxDelayMs: 60_000, take: 'first' },
    rate: { key: 'a', limit: 1, perMs: 60_000, onLimit: 'drop' },
    order: { key: 'a' },
  },
  {
    name: 'night',
    schedule: {
      cron: ['30 2 * * *'],
      timezone: 'Europe/Berlin',
      jitterMs: 0,
      catchup: 'last',
      windowMs: 3_600_000,
      overlap: 'queue',
    },
    batch: { key: 'a', size: 2, timeoutMs: 1_000 },
  },
  { name: 'often', schedule: { everyMs: 60_000 } },
  {
    name: 'monthly',
    schedule: { calendars: [{ minute: 30, hour: '9', day: '1-7', month: 'jan,jul', weekday: 'mon' }] },
  },
  { name: 'file', folder: { path: '/a', match: '*.csv', existing: 'start', everyMs: 60_000 } },
  { name: 'row', outbox: { secret: 'DB_URL', table: 'a.b', ca: 'DB_CA', everyMs: 60_000 } },
  { name: 'after', run: { of: 'build', state: ['failed'], when: 'input.version > 1', output: 'compile' } },
  {
    name: 'orders',
    queue: {
      nats: {
        servers: 'tls://nats.example',
        stream: 'ORDERS',
        consumer: 'voidbox',
        subject: 'orders.>',
        start: 'new',
        maxDeliver: 5,
        user: 'voidbox',
        password: 'NATS_PASSWORD',
        tlsCa: 'NATS_CA',
      },
    },
  },
  { name: 'other', queue: { nats: { servers: ['tls://a.example'], stream: 'S', consumer: 'c', token: 'T' } } },
  { name: 'third', queue: { nats: { servers: ['tls://a.example'], stream: 'S', consumer: 'c', creds: 'C' } } },
];
const common = {
  llm,
  name: 'all',
  params: { rows },
  sandbox,
  secrets: ['TOKEN'],
  maxParallel: 2,
  timeoutMs: 60_000,
  graceMs: 60_000,
  budget,
  defaults,
};
const stage = {
  when: 'params.rows == "1"',
  cwd: '/data',
  env: { LANG: 'C' },
  secrets: ['TOKEN'],
  outputs: { tables: '/workspace/tables' },
  outputFile: '/workspace/report.json',
  timeoutMs: 1_000,
  retry: { maxAttempts: 2, backoffMs: 1_000 },
  maxOutputMib: 1,
  continueOnError: true,
  sandbox,
  mock: { output: { ok: true }, exitCode: 0 },
  outputSchema: z.object({ ok: z.boolean() }),
};

const growing = { initialMs: 1_000, maxMs: 60_000, backoff: 2, nonRetryable: ['exit:2'] };

const workspace = {
  git: './app',
  ref: 'main',
  includeDirty: true,
  guest: '/workspace/app',
  subfolder: 'a',
  changes: 'keep',
} as const;

const WAITS = [wait('pause', { forMs: 1_000 }), wait('night', { until: new Date(0) })];
const repeated = { forEach: [1], maxParallel: 2, failFast: true, allowFailures: 1 } as const;

const other = defineWorkflow({ name: 'other', params: { branch: { type: 'text' } }, steps: [step('s', ['true'])] });
const use = part('use', other, { with: { branch: 'main' } });

const machine = { use: './skills/release', params: { place: 'Ulm' }, agent: { llm, skills, budget } } as const;

const question = {
  message: 'Go on?',
  by: ['ada'],
  selfApproval: false,
  timeoutMs: 1_000,
  onTimeout: 'reject',
  fields: [{ name: 'when', type: 'choice', choices: ['now'], required: false, description: 'when to' }],
} as const;

test.each<[PlanKind, () => Definition]>([
  [
    'workflow',
    () => {
      const first = step('first', ['true'], stage);
      const inputs = [{ from: first.output('tables'), guest: '/workspace/in', optional: true }];
      const last = step('last', ['cat', '-'], {
        ...stage,
        retry: growing,
        inputs,
        stdinFrom: first,
        dependsOn: [first],
        service: true,
      });
      const ask = agentStep('ask', 'x', { skills, llm, budget, dependsOn: [first], workspace });
      const repair = agentStep('repair', 'x', { onFailure: [ask] });
      const watch = agentStep('watch', 'x', { service: true, outputFile: '/workspace/report.json' });
      const rescue = step('rescue', 'true', { cwd: '/data', onFailure: [first, last] });
      return defineWorkflow({
        ...common,
        steps: [
          first,
          approval('ok', question),
          ...WAITS,
          ask,
          repair,
          watch,
          skillStep('machine', { ...machine, dependsOn: [first] }),
          last,
          rescue,
          step('each', ['true'], repeated),
          step('text', 'ls | wc -l', { cwd: '/data' }),
          step('check', ['true'], { workspace: { from: ask } }),
          use,
          step('clean', ['true'], { finally: true }),
        ],
        output: last,
        on: on(last),
        ...notify,
        checkpoint: 'off',
      });
    },
  ],
  [
    'pipeline',
    () => {
      const first = box('first', ['true'], stage);
      const inputs = [{ from: first.output('tables'), guest: '/workspace/in', optional: true }];
      const last = box('last', ['cat', '-'], { ...stage, retry: growing, inputs, stdinFrom: first });
      const ask = agentBox('ask', 'x', { skills, llm, budget, workspace });
      const repair = agentBox('repair', 'x', { onFailure: [ask] });
      return definePipeline({
        ...common,
        stages: [
          first,
          approval('ok', question),
          ...WAITS,
          ask,
          box('check', ['true'], { workspace: { from: ask } }),
          skillBox('machine', machine),
          fanOut([last], { name: 'tables' }),
          loop('refine', [box('again', 'true', { cwd: '/data' })], { until: 'true', maxVisits: 2, onLimit: 'pass' }),
          box('each', ['true'], repeated),
          box('text', 'ls | wc -l', { cwd: '/data' }),
          use,
        ],
        aside: [repair, box('rescue', ['true'], { onFailure: [first] }), box('clean', ['true'], { finally: true })],
        output: last,
        on: on(last),
        ...notify,
      });
    },
  ],
])('TypeScript has every key of a spec of the kind %s', (kind, define) => {
  const { source } = define();
  const said = new Set(written(JSON.parse(source)));
  expect(pathsOf(SPEC, kind).filter((path) => !said.has(path))).toEqual([]);
});
