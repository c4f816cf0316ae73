/** Sources that the service reads itself: a folder of its machine, and a table of an application. */
import { FOLDER_DEFAULTS, OUTBOX_DEFAULTS } from '../../delivery/trigger-defaults.ts';
import { EXISTING_FILES } from '../../delivery/trigger.ts';
import { writeDurationMs } from '../../units/duration.ts';
import type { MappingTable } from './table.ts';
import { DURATIONS } from './values.ts';

export const FOLDER = {
  form: (text) => `{ path: ${JSON.stringify(text)} }`,
  keys: {
    path: {
      as: 'path',
      type: { is: 'text', holds: 'absolute path', plain: true, absolute: true, filled: 'name a folder' },
      required: true,
      mistaken: ['dir', 'directory', 'folder', 'watch'],
      form: 'path: /srv/incoming',
      doc: 'A folder of the machine of the service, in one that `--allow-watch` allows.',
      example: '/srv/incoming',
    },
    match: {
      as: 'match',
      type: { is: 'text', holds: 'pattern', plain: true, filled: 'write a pattern such as `*.csv`, or remove it' },
      default: FOLDER_DEFAULTS.match,
      mistaken: ['pattern', 'glob', 'files', 'include'],
      doc: 'The files that count, by their path in the folder. `*` and `?` match within a name, and `**/` any number of folders. Only a dot matches a leading dot.',
      example: '*.csv',
    },
    existing: {
      as: 'existing',
      type: { is: 'word', words: EXISTING_FILES },
      default: FOLDER_DEFAULTS.existing,
      mistaken: ['initial', 'backlog', 'start_existing'],
      doc: 'Whether files that are in the folder when the trigger begins start a run.',
      example: 'start',
    },
    every: {
      as: 'everyMs',
      type: { is: 'duration', range: DURATIONS.look },
      default: writeDurationMs(FOLDER_DEFAULTS.everyMs),
      mistaken: ['interval', 'period', 'poll'],
      doc: 'The longest time between two scans; a change in the folder begins one at once.',
      example: '1m',
    },
  },
} as const satisfies MappingTable;

export const OUTBOX = {
  form: (text) => `{ secret: NAME, table: ${JSON.stringify(text)} }`,
  keys: {
    secret: {
      as: 'secret',
      type: { is: 'text', holds: 'name of a secret', variable: true },
      required: true,
      feeds: 'trigger-secrets',
      mistaken: ['url', 'database', 'connection', 'dsn'],
      form: 'secret: ORDERS_DB_URL',
      doc: "The secret of the deployment with the address of the application's database.",
      example: 'ORDERS_DB_URL',
    },
    table: {
      as: 'table',
      type: { is: 'text', holds: 'name of a table', plain: true, filled: 'name the table, such as `orders_outbox`' },
      required: true,
      mistaken: ['name', 'from', 'relation'],
      form: 'table: orders_outbox',
      doc: 'The table, with its schema unless that is `public`: `NAME` or `SCHEMA.NAME`. [Rows of an application](../guides/outboxes.md) has its statements.',
      example: 'orders_outbox',
    },
    ca: {
      as: 'ca',
      type: { is: 'text', holds: 'name of a secret', variable: true },
      feeds: 'trigger-secrets',
      mistaken: ['sslrootcert', 'certificate', 'root_cert'],
      otherwise: 'the authorities that Node trusts',
      doc: 'The secret of the deployment with the certificates (PEM) that may prove the database.',
      example: 'ORDERS_DB_CA',
    },
    every: {
      as: 'everyMs',
      type: { is: 'duration', range: DURATIONS.look },
      default: writeDurationMs(OUTBOX_DEFAULTS.everyMs),
      mistaken: ['interval', 'period', 'poll'],
      doc: 'The longest time between two looks; NOTIFY of the database begins one at once.',
      example: '1m',
    },
  },
} as const satisfies MappingTable;
