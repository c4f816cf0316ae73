import { RATE_LIMITS, TAKES } from '../../delivery/trigger.ts';
import { DEBOUNCE_DEFAULTS, RATE_DEFAULTS, TRIGGER_LIMITS } from '../../delivery/trigger-defaults.ts';
import { DEFAULT_DEDUPE_MS } from '../../delivery/trigger.ts';
import { writeDurationMs } from '../../units/duration.ts';
import type { Key, MappingTable } from './table.ts';
import { FOLDER, OUTBOX } from './trigger-folder-tables.ts';
import { QUEUE } from './trigger-queue-table.ts';
import { RUN, SCHEDULE, WEBHOOK } from './trigger-source-tables.ts';
import { DURATIONS, RANGES } from './values.ts';

const KEY = {
  as: 'key',
  type: {
    is: 'text',
    holds: 'text',
    lenient: true,
    filled: 'write a text such as "${{ input.number }}", or remove it',
  },
  mistaken: ['by', 'group', 'id'],
  doc: 'Deliveries with equal keys belong together.',
  example: '${{ input.number }}',
} as const satisfies Key;

const KEY_OF_SOME = { ...KEY, otherwise: 'all deliveries of the trigger' } as const satisfies Key;

const DEDUPE = {
  form: (text) => `{ key: ${JSON.stringify(text)} }`,
  keys: {
    key: { ...KEY, otherwise: "the sender's id of the delivery, else the hash of the body" },
    for: {
      as: 'forMs',
      type: { is: 'duration', range: DURATIONS.dedupe },
      default: writeDurationMs(DEFAULT_DEDUPE_MS),
      mistaken: ['window', 'ttl', 'within'],
      doc: 'Equal keys within this time start one run.',
      example: '1h',
    },
  },
} as const satisfies MappingTable;

const DEBOUNCE = {
  keys: {
    key: KEY_OF_SOME,
    delay: {
      as: 'delayMs',
      type: { is: 'duration', range: DURATIONS.debounce },
      required: true,
      mistaken: ['wait', 'for', 'period'],
      form: 'delay: 30s',
      doc: 'The run starts this long after the latest delivery.',
      example: '30s',
    },
    max_delay: {
      as: 'maxDelayMs',
      type: { is: 'duration', range: DURATIONS.debounce },
      required: true,
      mistaken: ['max_wait', 'timeout', 'limit'],
      form: 'max_delay: 5m',
      doc: 'The run starts at the latest this long after the first delivery.',
      example: '5m',
    },
    take: {
      as: 'take',
      type: { is: 'word', words: TAKES },
      default: DEBOUNCE_DEFAULTS.take,
      mistaken: ['keep', 'use'],
      doc: 'The delivery whose run starts.',
      example: 'first',
    },
  },
} as const satisfies MappingTable;

const BATCH = {
  keys: {
    key: KEY_OF_SOME,
    size: {
      as: 'size',
      type: { is: 'number', range: RANGES.batchSize },
      required: true,
      mistaken: ['count', 'max_size', 'limit'],
      doc: 'The run starts with this number of deliveries.',
      example: 20,
    },
    timeout: {
      as: 'timeoutMs',
      type: { is: 'duration', range: DURATIONS.batch },
      required: true,
      mistaken: ['timeout_secs', 'max_delay', 'delay', 'wait'],
      form: 'timeout: 1m',
      doc: 'The run starts at the latest this long after the first delivery.',
      example: '1m',
    },
  },
} as const satisfies MappingTable;

const RATE = {
  keys: {
    key: KEY_OF_SOME,
    limit: {
      as: 'limit',
      type: { is: 'number', range: RANGES.rateLimit },
      required: true,
      mistaken: ['count', 'max', 'runs'],
      doc: 'The number of runs.',
      example: 10,
    },
    per: {
      as: 'perMs',
      type: { is: 'duration', range: DURATIONS.rate },
      required: true,
      mistaken: ['period', 'window', 'interval'],
      form: 'per: 1h',
      doc: 'The time in which at most `limit` runs start, on average.',
      example: '1h',
    },
    on_limit: {
      as: 'onLimit',
      type: { is: 'word', words: RATE_LIMITS },
      default: RATE_DEFAULTS.onLimit,
      mistaken: ['over', 'excess'],
      doc: 'Further deliveries wait (`hold`), or are filtered (`drop`).',
      example: 'drop',
    },
  },
} as const satisfies MappingTable;

const ORDER = {
  form: (text) => `{ key: ${JSON.stringify(text)} }`,
  keys: { key: { ...KEY, required: true, form: 'key: "${{ input.number }}"' } },
} as const satisfies MappingTable;

/** An entry of `on`. A further source is one more key of the group. */
export const TRIGGER = {
  keys: {
    name: {
      as: 'name',
      type: { is: 'name' },
      required: true,
      mistaken: ['id', 'trigger'],
      doc: 'Unique in the spec; not `api`.',
      example: 'pull-request',
    },
    webhook: {
      as: 'webhook',
      type: { is: 'mapping', table: WEBHOOK },
      group: 'source',
      mistaken: ['http', 'hook'],
      form: 'webhook: { verify: github, secret: NAME }` or `schedule: { cron: "30 2 * * *" }',
      doc: 'An HTTP request of another system. See [Webhooks](#webhooks).',
      example: { verify: 'github', secret: 'GITHUB_WEBHOOK_SECRET' },
    },
    schedule: {
      as: 'schedule',
      type: { is: 'mapping', table: SCHEDULE },
      group: 'source',
      mistaken: ['cron', 'timer', 'every'],
      form: 'schedule: { cron: "30 2 * * *" }',
      doc: 'Times. See [Schedules](#schedules).',
      example: { cron: '30 2 * * 1-5' },
    },
    folder: {
      as: 'folder',
      type: { is: 'mapping', table: FOLDER },
      group: 'source',
      mistaken: ['file', 'watch', 'directory', 'path'],
      form: 'folder: { path: /srv/incoming }',
      doc: 'Files that appear in a folder. See [Folders](#folders).',
      example: { path: '/srv/incoming', match: '*.csv' },
    },
    outbox: {
      as: 'outbox',
      type: { is: 'mapping', table: OUTBOX },
      group: 'source',
      mistaken: ['postgres', 'table', 'database'],
      form: 'outbox: { secret: NAME, table: orders_outbox }',
      doc: "Rows of a table of an application's database. See [Outboxes](#outboxes).",
      example: { secret: 'ORDERS_DB_URL', table: 'orders_outbox' },
    },
    run: {
      as: 'run',
      type: { is: 'mapping', table: RUN },
      group: 'source',
      mistaken: ['runs', 'after', 'workflow_run', 'completion', 'follows'],
      form: 'run: { of: NAME }',
      doc: 'The end of a run of another deployment. See [Ends of runs](#ends-of-runs).',
      example: { of: 'build' },
    },
    queue: {
      as: 'queue',
      type: { is: 'mapping', table: QUEUE },
      group: 'source',
      mistaken: ['nats', 'messages', 'broker', 'consumer'],
      form: 'queue: { nats: { servers: tls://HOST:4222, stream: NAME, consumer: NAME } }',
      doc: 'Messages of a queue. See [Queues](#queues).',
      example: { nats: { servers: 'tls://nats.example:4222', stream: 'ORDERS', consumer: 'voidbox-orders' } },
    },
    when: {
      as: 'when',
      type: {
        is: 'text',
        holds: 'expression',
        lenient: true,
        filled: 'write a condition, such as `input.action == "opened"`, or remove it',
      },
      mistaken: ['if', 'condition', 'filter', 'filters'],
      otherwise: 'each delivery',
      doc: 'A delivery starts a run only if this holds.',
      example: 'input.action in ["opened", "synchronize"]',
    },
    params: {
      as: 'params',
      type: { is: 'param-texts', most: TRIGGER_LIMITS.params },
      mistaken: ['with', 'parameters', 'inputs'],
      doc: 'Values for parameters of the spec.',
      example: { number: '${{ input.number }}' },
    },
    input: {
      as: 'input',
      type: { is: 'text', holds: 'text', lenient: true },
      mistaken: ['body', 'payload', 'data'],
      otherwise: 'the payload as it was received',
      doc: 'The input of the run.',
      example: '${{ input.pull_request }}',
    },
    dedupe: {
      as: 'dedupe',
      type: { is: 'mapping', table: DEDUPE },
      mistaken: ['deduplicate', 'dedup', 'idempotency', 'idempotency_key'],
      doc: 'Deliveries that start one run together, because they are the same event.',
      example: { key: '${{ input.id }}', for: '1h' },
    },
    debounce: {
      as: 'debounce',
      type: { is: 'mapping', table: DEBOUNCE },
      mistaken: ['debouncing', 'settle'],
      form: 'debounce: { delay: 30s, max_delay: 5m }',
      doc: 'Starts one run for deliveries that follow each other quickly.',
      example: { key: '${{ input.number }}', delay: '30s', max_delay: '5m' },
    },
    batch: {
      as: 'batch',
      type: { is: 'mapping', table: BATCH },
      excludes: ['debounce'],
      mistaken: ['batching', 'batch_events'],
      form: 'batch: { size: 20, timeout: 1m }',
      doc: 'Starts one run with a list of payloads as its input.',
      example: { size: 20, timeout: '1m' },
    },
    rate: {
      as: 'rate',
      type: { is: 'mapping', table: RATE },
      mistaken: ['rate_limit', 'throttle', 'limit'],
      form: 'rate: { limit: 10, per: 1h }',
      doc: 'Bounds the starts of runs.',
      example: { limit: 10, per: '1h' },
    },
    order: {
      as: 'order',
      type: { is: 'mapping', table: ORDER },
      mistaken: ['ordering', 'ordered', 'sequence'],
      otherwise: 'no order',
      doc: 'Deliveries with equal keys start in the order in which they were accepted.',
      example: { key: '${{ input.number }}' },
    },
  },
} as const satisfies MappingTable;

/** The key `on` of a spec. */
export const ON_KEY = {
  as: 'on',
  type: { is: 'list', of: { is: 'mapping', table: TRIGGER }, item: 'trigger #', most: TRIGGER_LIMITS.triggers },
  kinds: ['workflow', 'pipeline', 'agent'],
  mistaken: ['triggers', 'trigger', 'events', 'webhooks', 'schedules', 'schedule'],
  form: 'on: [{ name: NAME, webhook: { verify: github, secret: NAME } }]',
  doc: 'Events that start runs of a deployment. See [Triggers](triggers.md).',
  example: [{ name: 'pull-request', webhook: { verify: 'github', secret: 'GITHUB_WEBHOOK_SECRET' } }],
} as const satisfies Key;
