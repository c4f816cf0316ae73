/** The values of absent keys of triggers, and the limits of triggers. */
import type {
  Debounce,
  FolderSource,
  HmacScheme,
  OutboxSource,
  Rate,
  Respond,
  RunSource,
  ScheduleSource,
  WebhookSource,
} from './trigger.ts';

export const HMAC_DEFAULTS = {
  prefix: '',
  algorithm: 'sha256',
  encoding: 'hex',
  timestamp: null,
} as const satisfies Partial<HmacScheme>;

export const RESPOND_DEFAULTS = { waitMs: 25_000, output: null, status: 200 } as const satisfies Respond;

export const WEBHOOK_DEFAULTS = { format: 'payload' } as const satisfies Partial<WebhookSource>;

/** The run of a follower that deploys or reports would otherwise start after a failed one. */
export const RUN_DEFAULTS = { states: ['succeeded'] } as const satisfies Partial<RunSource>;

export const SCHEDULE_DEFAULTS = {
  timezone: 'UTC',
  jitterMs: 0,
  catchup: 'none',
  windowMs: 24 * 60 * 60_000,
  overlap: 'skip',
} as const satisfies Partial<ScheduleSource>;

export const FOLDER_DEFAULTS = {
  match: '*',
  existing: 'skip',
  everyMs: 10_000,
} as const satisfies Partial<FolderSource>;
export const OUTBOX_DEFAULTS = { everyMs: 10_000 } as const satisfies Partial<OutboxSource>;

export const DEBOUNCE_DEFAULTS = { take: 'last' } as const satisfies Partial<Debounce>;
export const RATE_DEFAULTS = { onLimit: 'hold' } as const satisfies Partial<Rate>;

export const TRIGGER_LIMITS = {
  /** Triggers of one spec. */
  triggers: 64,
  /** Entries of `params` of one trigger. */
  params: 256,
  /** UTF-16 code units of one text with `${{ … }}`. */
  textCharacters: 16_384,
  /** Expressions of one trigger, over its texts. */
  expressions: 256,
  /** Lines of cron of one schedule. */
  cronLines: 16,
  /** UTF-16 code units of the prefix of a signature. */
  prefixCharacters: 64,
  /** UTF-8 bytes of the path of a folder. */
  folderBytes: 1_024,
  /** UTF-16 code units of the name of a header. */
  headerCharacters: 64,
} as const;
