import {
  CLOUDEVENTS_DEFAULTS,
  CLOUDEVENTS_MODES,
  NOTIFY_DEFAULTS,
  NOTIFY_LIMITS,
  NOTIFY_STATES,
} from '../../notification/notify.ts';
import { writeDurationMs } from '../../units/duration.ts';
import type { Key, MappingTable } from './table.ts';
import { DURATIONS } from './values.ts';

const URL_KEY = {
  as: 'url',
  type: { is: 'text', holds: 'URL', plain: true, filled: 'write the URL of the receiver' },
  required: true,
  mistaken: ['to', 'uri', 'endpoint', 'address'],
  doc: 'The address of the receiver: `https`, or `http` to a host that `--allow-notify` opens.',
  example: 'https://ops.example/hooks',
} as const satisfies Key;

const WEBHOOK_RECEIVER = {
  form: (text) => `{ url: ${text}, secret: NAME }`,
  keys: {
    url: URL_KEY,
    secret: {
      as: 'secret',
      type: { is: 'text', holds: 'name of a secret', variable: true },
      required: true,
      mistaken: ['secrets', 'key', 'token'],
      doc: 'The secret of the deployment that signs each message, as Standard Webhooks defines it: base64, with or without `whsec_`.',
      example: 'NOTIFY_SECRET',
    },
  },
} as const satisfies MappingTable;

const SLACK_RECEIVER = {
  form: (text) => `{ secret: ${text} }`,
  keys: {
    secret: {
      as: 'secret',
      type: { is: 'text', holds: 'name of a secret', variable: true },
      required: true,
      mistaken: ['url', 'webhook', 'channel', 'token'],
      doc: 'The secret of the deployment whose value is the URL of an incoming webhook.',
      example: 'SLACK_WEBHOOK_URL',
    },
  },
} as const satisfies MappingTable;

const CLOUDEVENTS_RECEIVER = {
  form: (text) => `{ url: ${text} }`,
  keys: {
    url: URL_KEY,
    token: {
      as: 'token',
      type: { is: 'text', holds: 'name of a secret', variable: true },
      mistaken: ['secret', 'authorization', 'bearer'],
      otherwise: 'no login',
      doc: 'The secret of the deployment that is sent as `Authorization: Bearer`.',
      example: 'EVENTS_TOKEN',
    },
    mode: {
      as: 'mode',
      type: { is: 'word', words: CLOUDEVENTS_MODES },
      default: CLOUDEVENTS_DEFAULTS.mode,
      mistaken: ['format', 'encoding', 'content_mode'],
      doc: 'The form of the request. `structured`: the event is the body. `binary`: its data is the body, and its attributes are headers. `batched`: the body is a list with the event.',
      example: 'binary',
    },
  },
} as const satisfies MappingTable;

/** An entry of `notify`. */
export const RECEIVER = {
  keys: {
    name: {
      as: 'name',
      type: { is: 'name' },
      required: true,
      mistaken: ['id', 'receiver'],
      doc: 'Unique among the receivers.',
      example: 'ops',
    },
    states: {
      as: 'states',
      type: {
        is: 'list',
        of: { is: 'text', holds: 'state', plain: true },
        alone: true,
        item: 'state #',
        items: 'states, or one state',
        most: NOTIFY_STATES.length,
        filled: { remedy: `name some of: ${NOTIFY_STATES.join(', ')}` },
      },
      required: true,
      mistaken: ['on', 'when', 'events', 'state'],
      doc: `The states about which the receiver gets a message: ${NOTIFY_STATES.map((state) => `\`${state}\``).join(', ')}. See [States](#states).`,
      example: ['failed', 'recovered'],
    },
    as: {
      as: 'as',
      type: { is: 'text', holds: 'name', plain: true, filled: 'name a person, or remove it' },
      mistaken: ['by', 'to', 'person', 'user'],
      otherwise: 'no link',
      doc: 'Messages about questions contain a link with which this person answers. `by` of the approval must contain the name.',
      example: 'ann',
    },
    webhook: {
      as: 'webhook',
      type: { is: 'mapping', table: WEBHOOK_RECEIVER },
      group: 'target',
      mistaken: ['http', 'hook', 'post'],
      form: 'webhook: { url: URL, secret: NAME }` or `slack: { secret: NAME }',
      doc: 'A signed POST of JSON. See [Receivers](#receivers).',
      example: { url: 'https://ops.example/hooks', secret: 'NOTIFY_SECRET' },
    },
    slack: {
      as: 'slack',
      type: { is: 'mapping', table: SLACK_RECEIVER },
      group: 'target',
      form: 'slack: { secret: NAME }',
      doc: 'A message in a channel of Slack.',
      example: { secret: 'SLACK_WEBHOOK_URL' },
    },
    cloudevents: {
      as: 'cloudevents',
      type: { is: 'mapping', table: CLOUDEVENTS_RECEIVER },
      group: 'target',
      mistaken: ['cloud_events', 'cloudevent'],
      form: 'cloudevents: { url: URL }',
      doc: 'A CloudEvent 1.0.',
      example: { url: 'https://events.example/' },
    },
  },
} as const satisfies MappingTable;

const KINDS = ['workflow', 'pipeline', 'agent'] as const;

/** The keys of a spec about notifications. */
export const NOTIFY_KEYS = {
  notify: {
    as: 'notify',
    type: { is: 'list', of: { is: 'mapping', table: RECEIVER }, item: 'receiver #', most: NOTIFY_LIMITS.receivers },
    kinds: KINDS,
    mistaken: ['notifications', 'notification', 'alerts', 'receivers'],
    form: 'notify: [{ name: NAME, states: [failed], webhook: { url: URL, secret: NAME } }]',
    doc: 'Receivers of messages about runs of a deployment. See [Notifications](notifications.md).',
    example: [
      { name: 'ops', states: ['failed'], webhook: { url: 'https://ops.example/hooks', secret: 'NOTIFY_SECRET' } },
    ],
  },
  late_after: {
    as: 'lateAfterMs',
    type: { is: 'duration', range: DURATIONS.late },
    kinds: KINDS,
    needs: 'notify',
    mistaken: ['late', 'expected_within', 'sla'],
    otherwise: 'no run is late',
    doc: 'A run that has not ended this long after its start is `late`, and so is a schedule without a run. The run continues.',
    example: '2h',
  },
  waiting_after: {
    as: 'waitingAfterMs',
    type: { is: 'duration', range: DURATIONS.late },
    kinds: KINDS,
    needs: 'notify',
    mistaken: ['waiting_long', 'waiting_long_after'],
    default: writeDurationMs(NOTIFY_DEFAULTS.waitingAfterMs),
    doc: 'A question that is open this long is `waiting_long`.',
    example: '30m',
  },
} as const satisfies Record<string, Key>;

/** A file of receivers that a deployer adds to those of a spec. */
export const NOTIFY_FILE = { of: 'nothing', keys: NOTIFY_KEYS } as const satisfies MappingTable;
