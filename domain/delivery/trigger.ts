/**
 * The triggers of a deployment, compiled from `on:` of its spec. They are JSON-safe, are stored with a version, and
 * contain names of secrets instead of values. A key whose value may depend on the delivery is a text with
 * `${{ … }}`: expressions over `input` (the payload) and `headers`.
 */
import { API_TRIGGER } from './delivery.ts';
import { listQueueSecrets, type QueueSource } from './queue-source.ts';

export interface Trigger {
  /** Unique in its spec. */
  readonly name: string;
  readonly source: TriggerSource;
  /** An expression; a delivery for which it does not hold is `filtered`. Null: every delivery starts a run. */
  readonly when: string | null;
  /** Texts for parameters of the spec, by name. */
  readonly params: Readonly<Record<string, string>>;
  /** A text for the input of the run. Null: the payload as it was received. */
  readonly input: string | null;
  readonly dedupe: Dedupe;
  readonly debounce: Debounce | null;
  readonly batch: Batch | null;
  readonly rate: Rate | null;
  readonly order: Order | null;
}

export type TriggerSource =
  | WebhookSource
  | ScheduleSource
  | FolderSource
  | OutboxSource
  | RunSource
  | QueueSource
  | ApiSource;

/** A person or a program asks for a run. Each deployment has this source, which its spec does not name. */
export interface ApiSource {
  readonly kind: 'api';
}

export interface WebhookSource {
  readonly kind: 'webhook';
  readonly verify: WebhookVerify;
  readonly format: HookFormat;
  readonly respond: Respond | null;
}

/**
 * The form of a webhook's requests. `payload`: the body is the payload. `cloudevents`: a request is an event of
 * CloudEvents 1.0, or a batch of them, and the data of an event is its payload.
 */
export const HOOK_FORMATS = ['payload', 'cloudevents'] as const;
export type HookFormat = (typeof HOOK_FORMATS)[number];

export const RUN_ENDS = ['succeeded', 'failed', 'cancelled', 'terminated'] as const;
export type RunEnd = (typeof RUN_ENDS)[number];

/** The end of a run that a delivery of another deployment started. */
export interface RunSource {
  readonly kind: 'run';
  /** The name of the other deployment. */
  readonly of: string;
  /** A run that ends in another state is no event of this trigger. At least one, in the order of `RUN_ENDS`. */
  readonly states: readonly RunEnd[];
  /**
   * The output of the ended run that is the input of the new one: the name of a stage, or of a stage and of its named
   * output with a dot between them. Absent: the payload is the input.
   */
  readonly output?: string;
}

/** The proof that a webhook's request comes from its sender. `secret` names a secret of the deployment. */
export type WebhookVerify =
  | { readonly scheme: NamedScheme; readonly secret: string }
  | ({ readonly scheme: 'hmac'; readonly secret: string } & HmacScheme)
  /** Any request is accepted. */
  | { readonly scheme: 'none' };

export const NAMED_SCHEMES = ['github', 'gitlab', 'stripe', 'slack', 'standard-webhooks'] as const;
export type NamedScheme = (typeof NAMED_SCHEMES)[number];

export const HMAC_ALGORITHMS = ['sha256', 'sha512', 'sha1'] as const;
export const HMAC_ENCODINGS = ['hex', 'base64'] as const;

export interface HmacScheme {
  /** The header with the signature of the body, in lower case. */
  readonly header: string;
  /** The text before the signature, such as `sha256=`; may be empty. */
  readonly prefix: string;
  readonly algorithm: (typeof HMAC_ALGORITHMS)[number];
  readonly encoding: (typeof HMAC_ENCODINGS)[number];
  /**
   * The header with the time of the request, in seconds since 1970 and in lower case. The signature is then of
   * `TIME.BODY`. Null: the sender states no time, and the signature is of the body.
   */
  readonly timestamp: string | null;
}

/** The answer of a webhook whose sender waits for the run. */
export interface Respond {
  /** At most 60,000. */
  readonly waitMs: number;
  /** The stage whose output is the body. Null: the output of the run. */
  readonly output: string | null;
  /** The HTTP status if the run has succeeded in time. */
  readonly status: number;
}

export const TAKES = ['first', 'last'] as const;
export const RATE_LIMITS = ['hold', 'drop'] as const;

export const CATCHUPS = ['none', 'last', 'all'] as const;
export const OVERLAPS = ['skip', 'queue', 'cancel_oldest', 'allow'] as const;

export interface ScheduleSource {
  readonly kind: 'schedule';
  /**
   * Lines of cron with five fields; empty if `everyMs` is set. A line that restricts the day of the month and the day of the
   * week is a calendar: it starts on days that are both.
   */
  readonly cron: readonly string[];
  /** Null: `cron` decides. */
  readonly everyMs: number | null;
  /** A name of the IANA database, such as `Europe/Berlin`. */
  readonly timezone: string;
  /** Each time is delayed by a random part of this. */
  readonly jitterMs: number;
  /** The times that passed while nothing could start them. */
  readonly catchup: (typeof CATCHUPS)[number];
  /** Older times are not caught up. */
  readonly windowMs: number;
  /** The rule for a time at which a run of an earlier one is open. */
  readonly overlap: (typeof OVERLAPS)[number];
}

export const EXISTING_FILES = ['skip', 'start'] as const;

/** Files that appear in a folder of the machine of the service. */
export interface FolderSource {
  readonly kind: 'folder';
  /** Absolute. */
  readonly path: string;
  /** The pattern of the paths in the folder. */
  readonly match: string;
  /** The fate of files that are in the folder when the trigger begins. */
  readonly existing: (typeof EXISTING_FILES)[number];
  /** The longest time between two scans. */
  readonly everyMs: number;
}

/** Rows that an application writes into a table of its own PostgreSQL database. */
export interface OutboxSource {
  readonly kind: 'outbox';
  /** The name of the secret with the address of the database. */
  readonly secret: string;
  /** `NAME` or `SCHEMA.NAME`. */
  readonly table: string;
  /** The name of the secret with the certificates that may prove the database; null: those that Node trusts. */
  readonly ca: string | null;
  /** The longest time between two looks. */
  readonly everyMs: number;
}

/** Deliveries with equal keys within `forMs` start one run. */
export interface Dedupe {
  /** Null: the sender's id of the delivery, or the hash of its body. */
  readonly key: string | null;
  readonly forMs: number;
}

export const DEFAULT_DEDUPE_MS = 24 * 60 * 60_000;

/** Starts one run for deliveries that follow each other within `delayMs`. */
export interface Debounce {
  /** Null: all deliveries of the trigger. */
  readonly key: string | null;
  readonly delayMs: number;
  /** The first delivery waits for at most this long. */
  readonly maxDelayMs: number;
  readonly take: (typeof TAKES)[number];
}

/** Starts one run with a list of payloads as its input. */
export interface Batch {
  readonly key: string | null;
  /** The run starts at this number of deliveries. */
  readonly size: number;
  /** The run starts this long after its first delivery. */
  readonly timeoutMs: number;
}

/** A token bucket: `limit` runs at once, which fill up again within `perMs`. */
export interface Rate {
  readonly key: string | null;
  readonly limit: number;
  readonly perMs: number;
  readonly onLimit: (typeof RATE_LIMITS)[number];
}

/** Deliveries with equal keys start in the order in which they were accepted. */
export interface Order {
  readonly key: string;
}

/** The names of secrets that the triggers need, sorted. */
export function listTriggerSecrets(triggers: readonly Trigger[]): readonly string[] {
  const names = triggers.flatMap(({ source }) => listSourceSecrets(source));
  return [...new Set(names)].toSorted();
}

function listSourceSecrets(source: TriggerSource): readonly string[] {
  switch (source.kind) {
    case 'webhook':
      return source.verify.scheme === 'none' ? [] : [source.verify.secret];
    case 'outbox':
      return source.ca === null ? [source.secret] : [source.secret, source.ca];
    case 'queue':
      return listQueueSecrets(source);
    case 'schedule':
    case 'folder':
    case 'run':
    case 'api':
      return [];
  }
}

/** The trigger of deliveries that `voidbox trigger` makes. The senders of these state their own parameters. */
export const API_RULES: Trigger = {
  name: API_TRIGGER,
  source: { kind: 'api' },
  when: null,
  params: {},
  input: null,
  dedupe: { key: null, forMs: DEFAULT_DEDUPE_MS },
  debounce: null,
  batch: null,
  rate: null,
  order: null,
};
