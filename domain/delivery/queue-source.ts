/** A trigger that reads messages of a queue. */

export const QUEUE_STARTS = ['all', 'new'] as const;

export interface QueueSource {
  readonly kind: 'queue';
  readonly nats: NatsQueue;
}

/** A durable pull consumer of a stream of NATS JetStream. */
export interface NatsQueue {
  /** Such as `tls://nats.example:4222`, with a port; all have one scheme. */
  readonly servers: readonly string[];
  readonly stream: string;
  /** The durable name. All services with this name share the messages. */
  readonly consumer: string;
  /** The subjects that the consumer gets, with the wildcards of NATS. Null: all of the stream. */
  readonly subject: string | null;
  /** The messages that a consumer gets which the service makes. */
  readonly start: (typeof QUEUE_STARTS)[number];
  /** A message that was delivered this often without an acknowledgement is refused. */
  readonly maxDeliver: number;
  readonly login: NatsLogin | null;
  /** The secret with the certificate of the authority that signs those of the servers, PEM. Null: Node's. */
  readonly tlsCa: string | null;
}

/** `token`, `password` and `creds` name secrets. */
export type NatsLogin =
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'user'; readonly user: string; readonly password: string }
  | { readonly kind: 'creds'; readonly creds: string };

export const QUEUE_DEFAULTS = {
  subject: null,
  start: 'all',
  maxDeliver: 10,
  tlsCa: null,
} as const satisfies Partial<NatsQueue>;

export const QUEUE_LIMITS = {
  servers: 16,
  /** Characters of the names of streams and consumers. */
  nameCharacters: 128,
  subjectCharacters: 256,
  userCharacters: 256,
} as const;

/** The names of secrets that the source needs. */
export function listQueueSecrets({ nats: { login, tlsCa } }: QueueSource): readonly string[] {
  const ofLogin =
    login === null ? [] : [login.kind === 'user' ? login.password : login.kind === 'token' ? login.token : login.creds];
  return [...ofLogin, ...(tlsCa === null ? [] : [tlsCa])];
}
