import { QUEUE_DEFAULTS, QUEUE_LIMITS, QUEUE_STARTS } from '../../delivery/queue-source.ts';
import type { MappingTable, TextType } from './table.ts';
import { RANGES } from './values.ts';

const SECRET = { is: 'text', holds: 'name of a secret', variable: true } as const satisfies TextType;

const NATS = {
  form: (text) => `{ servers: ${JSON.stringify(text)}, stream: NAME, consumer: NAME }`,
  keys: {
    servers: {
      as: 'servers',
      type: {
        is: 'list',
        of: { is: 'text', holds: 'address of a server', plain: true },
        alone: true,
        item: '`servers`',
        items: 'addresses of servers, or one address',
        most: QUEUE_LIMITS.servers,
        filled: { remedy: 'write an address, such as tls://nats.example:4222' },
      },
      required: true,
      mistaken: ['server', 'url', 'urls', 'brokers', 'address'],
      form: 'servers: tls://HOST:4222',
      doc: 'The servers of one cluster, as `tls://HOST:PORT` or `nats://HOST:PORT`. `tls` requires TLS. The operator of the service allows each of them.',
      example: ['tls://nats.example:4222'],
    },
    stream: {
      as: 'stream',
      type: { is: 'text', holds: 'name of a stream', plain: true, filled: 'name a stream of JetStream' },
      required: true,
      mistaken: ['queue', 'topic', 'stream_name'],
      doc: 'The stream of JetStream, which exists.',
      example: 'ORDERS',
    },
    consumer: {
      as: 'consumer',
      type: { is: 'text', holds: 'name of a consumer', plain: true, filled: 'name a durable consumer' },
      required: true,
      mistaken: ['durable', 'durable_name', 'group', 'consumer_group'],
      doc: 'The durable consumer. All services that name it share its messages. The service makes it if it does not exist.',
      example: 'voidbox-orders',
    },
    subject: {
      as: 'subject',
      type: { is: 'text', holds: 'subject', plain: true, filled: 'write a subject such as orders.>, or remove it' },
      mistaken: ['subjects', 'filter', 'filter_subject'],
      otherwise: 'all subjects of the stream',
      doc: 'The subject of the messages that the consumer gets, with the wildcards of NATS.',
      example: 'orders.>',
    },
    start: {
      as: 'start',
      type: { is: 'word', words: QUEUE_STARTS },
      default: QUEUE_DEFAULTS.start,
      mistaken: ['deliver_policy', 'deliver', 'from'],
      doc: 'Where a consumer begins that the service makes: with all messages of the stream, or with later ones.',
      example: 'new',
    },
    max_deliver: {
      as: 'maxDeliver',
      type: { is: 'number', range: RANGES.maxDeliver },
      default: QUEUE_DEFAULTS.maxDeliver,
      mistaken: ['max_deliveries', 'retries', 'max_attempts'],
      doc: 'A message that was delivered more often is refused, because no delivery of it was acknowledged.',
      example: 5,
    },
    token: {
      as: 'token',
      type: SECRET,
      feeds: 'trigger-secrets',
      excludes: ['user', 'password', 'creds'],
      mistaken: ['auth_token', 'secret'],
      doc: 'The secret with the token of the login.',
      example: 'NATS_TOKEN',
    },
    user: {
      as: 'user',
      type: { is: 'text', holds: 'name of a user', plain: true, filled: 'name a user of the server, or remove it' },
      excludes: ['token', 'creds'],
      mistaken: ['username', 'login'],
      doc: 'The user of the login.',
      example: 'voidbox',
    },
    password: {
      as: 'password',
      type: SECRET,
      feeds: 'trigger-secrets',
      needs: 'user',
      excludes: ['token', 'creds'],
      mistaken: ['pass', 'passwd'],
      otherwise: 'required with `user`',
      doc: 'The secret with the password of `user`.',
      example: 'NATS_PASSWORD',
    },
    creds: {
      as: 'creds',
      type: SECRET,
      feeds: 'trigger-secrets',
      excludes: ['token', 'user', 'password'],
      mistaken: ['credentials', 'credentials_file', 'jwt'],
      doc: 'The secret with the content of a file of credentials (`.creds`).',
      example: 'NATS_CREDS',
    },
    tls_ca: {
      as: 'tlsCa',
      type: SECRET,
      feeds: 'trigger-secrets',
      mistaken: ['ca', 'ca_file', 'ca_cert'],
      otherwise: 'the authorities that Node trusts',
      doc: 'The secret with the certificate of the authority that signs those of the servers, PEM. Only with `tls://`.',
      example: 'NATS_CA',
    },
  },
} as const satisfies MappingTable;

export const QUEUE = {
  keys: {
    nats: {
      as: 'nats',
      type: { is: 'mapping', table: NATS },
      required: true,
      mistaken: ['jetstream', 'kafka', 'amqp', 'sqs', 'type'],
      form: 'nats: { servers: tls://HOST:4222, stream: NAME, consumer: NAME }',
      doc: 'A durable consumer of NATS JetStream.',
      example: { servers: 'tls://nats.example:4222', stream: 'ORDERS', consumer: 'voidbox-orders' },
    },
  },
} as const satisfies MappingTable;
