/** `on` of a definition: the events that start runs of a deployment. */
import type {
  CATCHUPS,
  EXISTING_FILES,
  HMAC_ALGORITHMS,
  HMAC_ENCODINGS,
  HookFormat,
  NamedScheme,
  OVERLAPS,
  RunEnd,
} from '../domain/delivery/trigger.ts';
import type { QUEUE_STARTS } from '../domain/delivery/queue-source.ts';
import * as known from './known-options.ts';
import { checkList, checkOptions, durationOf, nameOf, secondsOf } from './options.ts';
import type { SpecObject } from './stages/stage.ts';

/**
 * A text or an expression may contain `${{ … }}` over `input`, the payload, and `headers`. It has one source: a
 * webhook, a schedule, a folder, an outbox, the end of a run or a queue.
 */
export interface TriggerOptions {
  /** Unique in the definition; not `api`. */
  readonly name: string;
  readonly webhook?: WebhookOptions;
  readonly schedule?: ScheduleOptions;
  readonly folder?: FolderOptions;
  readonly outbox?: OutboxOptions;
  readonly run?: RunSourceOptions;
  readonly queue?: QueueOptions;
  /** A delivery starts a run only if this expression holds. Default: each delivery starts one. */
  readonly when?: string;
  /** Values for parameters. */
  readonly params?: Readonly<Record<string, string | number | boolean>>;
  /** The input of the run. Default: the payload as it was received. */
  readonly input?: string;
  readonly dedupe?: { readonly key?: string; readonly forMs?: number };
  readonly debounce?: {
    readonly key?: string;
    readonly delayMs: number;
    readonly maxDelayMs: number;
    readonly take?: 'first' | 'last';
  };
  readonly batch?: { readonly key?: string; readonly size: number; readonly timeoutMs: number };
  readonly rate?: {
    readonly key?: string;
    readonly limit: number;
    readonly perMs: number;
    readonly onLimit?: 'hold' | 'drop';
  };
  readonly order?: { readonly key: string };
}

export interface WebhookOptions {
  /** The sender whose signature the service checks. `none` accepts every request. */
  readonly verify: NamedScheme | 'none' | HmacOptions;
  /** The name of a secret of the deployment; required, except with `none`. */
  readonly secret?: string;
  /** `cloudevents`: each request is an event of CloudEvents 1.0, or a batch of them. Default: `payload`. */
  readonly format?: HookFormat;
  /** The sender waits for the run. */
  readonly respond?: {
    /** Default: 25 seconds. */
    readonly waitMs?: number;
    /** The stage whose output is the answer. Default: the output of the run. */
    readonly output?: { readonly name: string };
    readonly status?: number;
  };
}

export interface HmacOptions {
  /** The header with the signature. */
  readonly header: string;
  /** The text before the signature. */
  readonly prefix?: string;
  readonly algorithm?: (typeof HMAC_ALGORITHMS)[number];
  readonly encoding?: (typeof HMAC_ENCODINGS)[number];
  /** The header with the time in seconds since 1970. */
  readonly timestamp?: string;
}

/** The end of a run of another deployment. */
export interface RunSourceOptions {
  /** The name of the other deployment. */
  readonly of: string;
  /** The ends that are events. Default: `succeeded`. */
  readonly state?: RunEnd | readonly RunEnd[];
  /** The same as `when` of the trigger. */
  readonly when?: string;
  /**
   * The output of the ended run that is the input of the new one: `STAGE`, or `STAGE.OUTPUT`. Default: the payload is
   * the input.
   */
  readonly output?: string;
}

/** It has `cron`, `calendars` or `everyMs`. */
export interface ScheduleOptions {
  /** Lines with five fields. */
  readonly cron?: string | readonly string[];
  /** Times whose fields all hold. */
  readonly calendars?: readonly CalendarOptions[];
  readonly everyMs?: number;
  /** A name of the IANA database. Default: `UTC`. */
  readonly timezone?: string;
  readonly jitterMs?: number;
  readonly catchup?: (typeof CATCHUPS)[number];
  readonly windowMs?: number;
  readonly overlap?: (typeof OVERLAPS)[number];
}

/** Each field is a number, or a text as in a line of cron: `1-7`, `mon`. */
export interface CalendarOptions {
  /** Default: 0. */
  readonly minute?: number | string;
  /** Default: 0. */
  readonly hour?: number | string;
  /** Default: each day of the month. */
  readonly day?: number | string;
  /** Default: each month. */
  readonly month?: number | string;
  /** Default: each day of the week. */
  readonly weekday?: number | string;
}

/** Files that appear in a folder of the machine of the service. */
export interface FolderOptions {
  /** Absolute. */
  readonly path: string;
  /** Default: `*`, each file directly in the folder. */
  readonly match?: string;
  /** The fate of files that are in the folder when the trigger begins. Default: `skip`. */
  readonly existing?: (typeof EXISTING_FILES)[number];
  /** The longest time between two scans. Default: 10 seconds. */
  readonly everyMs?: number;
}

/** Rows of a table that an application writes in its own PostgreSQL database. */
export interface OutboxOptions {
  /** The name of the secret with the address of the database. */
  readonly secret: string;
  /** `NAME` or `SCHEMA.NAME`. */
  readonly table: string;
  /** The name of the secret with the certificates that may prove the database, PEM. Default: those that Node trusts. */
  readonly ca?: string;
  /** The longest time between two looks. Default: 10 seconds. */
  readonly everyMs?: number;
}

/** Messages of a stream of NATS JetStream. `token`, `password`, `creds` and `tlsCa` name secrets of the deployment. */
export interface QueueOptions {
  readonly nats: {
    /** Such as `tls://nats.example:4222`. */
    readonly servers: string | readonly string[];
    readonly stream: string;
    /** The durable consumer. */
    readonly consumer: string;
    /** Default: all subjects of the stream. */
    readonly subject?: string;
    /** Where a consumer begins that the service makes. Default: `all`. */
    readonly start?: (typeof QUEUE_STARTS)[number];
    /** A message that was delivered more often is refused. Default: 10. */
    readonly maxDeliver?: number;
    readonly token?: string;
    readonly user?: string;
    readonly password?: string;
    readonly creds?: string;
    readonly tlsCa?: string;
  };
}

export function writeTriggers(
  on: readonly TriggerOptions[] | undefined,
  of: string,
): readonly SpecObject[] | undefined {
  if (on === undefined) return undefined;
  checkList(`\`on\` ${of}`, on);
  return on.map((trigger) => writeTrigger(trigger, of));
}

function writeTrigger(trigger: TriggerOptions, owner: string): SpecObject {
  checkOptions(`a trigger ${owner}`, trigger, known.TRIGGER_OPTIONS);
  const of = `of trigger "${trigger.name}"`;
  const { name, webhook, schedule, folder, outbox, run, queue, when, params, input } = trigger;
  const { dedupe, debounce, batch, rate, order } = trigger;
  if (run !== undefined) checkOptions(`run ${of}`, run, known.RUN_SOURCE_OPTIONS);
  if (dedupe !== undefined) checkOptions(`dedupe ${of}`, dedupe, known.DEDUPE_OPTIONS);
  if (debounce !== undefined) checkOptions(`debounce ${of}`, debounce, known.DEBOUNCE_OPTIONS);
  if (batch !== undefined) checkOptions(`batch ${of}`, batch, known.BATCH_OPTIONS);
  if (rate !== undefined) checkOptions(`rate ${of}`, rate, known.RATE_OPTIONS);
  if (order !== undefined) checkOptions(`order ${of}`, order, known.ORDER_OPTIONS);
  return {
    name,
    webhook: writeWebhook(webhook, of),
    schedule: writeSchedule(schedule, of),
    folder: writeFolder(folder, of),
    outbox: writeOutbox(outbox, of),
    run: run && { of: run.of, state: run.state, when: run.when, output: run.output },
    queue: writeQueue(queue, of),
    when,
    params,
    input,
    dedupe: dedupe && { key: dedupe.key, for: durationOf(`\`dedupe.forMs\` ${of}`, dedupe.forMs) },
    debounce: debounce && {
      key: debounce.key,
      delay: durationOf(`\`debounce.delayMs\` ${of}`, debounce.delayMs),
      max_delay: durationOf(`\`debounce.maxDelayMs\` ${of}`, debounce.maxDelayMs),
      take: debounce.take,
    },
    batch: batch && {
      key: batch.key,
      size: batch.size,
      timeout: durationOf(`\`batch.timeoutMs\` ${of}`, batch.timeoutMs),
    },
    rate: rate && {
      key: rate.key,
      limit: rate.limit,
      per: durationOf(`\`rate.perMs\` ${of}`, rate.perMs),
      on_limit: rate.onLimit,
    },
    order,
  };
}

function writeWebhook(webhook: WebhookOptions | undefined, of: string): SpecObject | undefined {
  if (webhook === undefined) return undefined;
  checkOptions(`webhook ${of}`, webhook, known.WEBHOOK_OPTIONS);
  const { verify, secret, format, respond } = webhook;
  if (typeof verify === 'object') checkOptions(`verify ${of}`, verify, known.HMAC_OPTIONS);
  if (respond !== undefined) checkOptions(`respond ${of}`, respond, known.RESPOND_OPTIONS);
  return {
    verify,
    secret,
    format,
    respond: respond && {
      wait_secs: secondsOf(respond.waitMs),
      output: respond.output && nameOf(`\`respond.output\` ${of}`, respond.output),
      status: respond.status,
    },
  };
}

function writeSchedule(schedule: ScheduleOptions | undefined, of: string): SpecObject | undefined {
  if (schedule === undefined) return undefined;
  checkOptions(`schedule ${of}`, schedule, known.SCHEDULE_OPTIONS);
  const { cron, calendars, everyMs, timezone, jitterMs, catchup, windowMs, overlap } = schedule;
  if (calendars !== undefined) checkList(`\`calendars\` ${of}`, calendars);
  for (const calendar of calendars ?? []) checkOptions(`a calendar ${of}`, calendar, known.CALENDAR_OPTIONS);
  return {
    cron,
    calendars: calendars?.map(({ minute, hour, day, month, weekday }) => ({ minute, hour, day, month, weekday })),
    every: durationOf(`\`everyMs\` ${of}`, everyMs),
    timezone,
    jitter: durationOf(`\`jitterMs\` ${of}`, jitterMs),
    catchup,
    window: durationOf(`\`windowMs\` ${of}`, windowMs),
    overlap,
  };
}

function writeFolder(folder: FolderOptions | undefined, of: string): SpecObject | undefined {
  if (folder === undefined) return undefined;
  checkOptions(`folder ${of}`, folder, known.FOLDER_OPTIONS);
  const { path, match, existing, everyMs } = folder;
  return { path, match, existing, every: durationOf(`\`everyMs\` ${of}`, everyMs) };
}

function writeOutbox(outbox: OutboxOptions | undefined, of: string): SpecObject | undefined {
  if (outbox === undefined) return undefined;
  checkOptions(`outbox ${of}`, outbox, known.OUTBOX_OPTIONS);
  const { secret, table, ca, everyMs } = outbox;
  return { secret, table, ca, every: durationOf(`\`everyMs\` ${of}`, everyMs) };
}

function writeQueue(queue: QueueOptions | undefined, of: string): SpecObject | undefined {
  if (queue === undefined) return undefined;
  checkOptions(`queue ${of}`, queue, known.QUEUE_OPTIONS);
  checkOptions(`nats ${of}`, queue.nats, known.NATS_OPTIONS);
  const { maxDeliver, tlsCa, ...nats } = queue.nats;
  return { nats: { ...nats, max_deliver: maxDeliver, tls_ca: tlsCa } };
}
