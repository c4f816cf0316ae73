/** Compiles the source of a trigger. */
import {
  HMAC_DEFAULTS,
  RESPOND_DEFAULTS,
  SCHEDULE_DEFAULTS,
  TRIGGER_LIMITS,
  WEBHOOK_DEFAULTS,
} from '../../../delivery/trigger-defaults.ts';
import {
  type Respond,
  type ScheduleSource,
  type TriggerSource,
  type WebhookSource,
  type WebhookVerify,
} from '../../../delivery/trigger.ts';
import { CALENDAR_DEFAULTS, CALENDAR_FIELDS, readCalendar, readCron } from './cron.ts';
import { compileRun } from './run-source.ts';
import { compileFolder, compileOutbox } from './service-sources.ts';
import { compileQueue } from './queue.ts';
import { findTimeZone } from './timezone.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { Spec } from '../../read/spec.ts';
import type { Located } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';

type TriggerSpec = Spec['on'][number];
type WebhookSpec = NonNullable<TriggerSpec['webhook']>;
type ScheduleSpec = NonNullable<TriggerSpec['schedule']>;
type VerifySpec = WebhookSpec['verify'];

interface SourceContext {
  /** The trigger in a message. */
  readonly what: string;
  /** Checks that a stage exists and has an output. */
  readonly checkStage: (stage: Located<string>, what: string) => void;
  /** As in a Spec. */
  readonly gaps: Spec['gaps'];
  readonly problems: Problems;
}

/** Returns null if a mistake in the source was reported. */
export function compileSource(trigger: TriggerSpec, context: SourceContext): TriggerSource | null {
  const { webhook, schedule, folder, outbox, run, queue, batch, input } = trigger;
  if (webhook !== null) return compileWebhook(webhook, context);
  if (folder !== null) return compileFolder({ folder, batch }, context);
  if (outbox !== null) return compileOutbox(outbox, context);
  if (run !== null) return compileRun({ run, batch, input }, context);
  if (queue !== null) return compileQueue(queue, context);
  return schedule === null ? null : compileSchedule(schedule, context);
}

function compileWebhook(webhook: WebhookSpec, context: SourceContext): WebhookSource | null {
  const { what, checkStage } = context;
  const verify = compileVerify(webhook, context);
  const { respond } = webhook;
  if (respond !== null && respond.output !== null) checkStage(respond.output, `\`respond.output\` of ${what}`);
  if (verify === null) return null;
  return {
    kind: 'webhook',
    verify,
    format: webhook.format?.value ?? WEBHOOK_DEFAULTS.format,
    respond: respond === null ? null : compileRespond(respond),
  };
}

function compileRespond({ waitMs, output, status }: NonNullable<WebhookSpec['respond']>): Respond {
  return {
    waitMs: waitMs ?? RESPOND_DEFAULTS.waitMs,
    output: output?.value ?? null,
    status: status ?? RESPOND_DEFAULTS.status,
  };
}

function compileVerify({ verify, secret, at }: WebhookSpec, context: SourceContext): WebhookVerify | null {
  const { what, problems } = context;
  const isOpen = verify.variant === 'word' && verify.word === 'none';
  if (isOpen && secret !== null)
    problems.error(
      'spec/bad-value',
      secret.at,
      `\`webhook\` of ${what} has \`secret\` and \`verify: none\`, which accepts every request`,
      'name the sender in `verify`, or remove `secret`',
    );
  if (isOpen) return { scheme: 'none' };
  const hmac = verify.variant === 'mapping' ? compileHmac(verify, context) : null;
  if (secret === null) {
    // A secret under another key was reported.
    if (context.gaps.includes('trigger-secrets')) return null;
    problems.error(
      'spec/bad-value',
      at,
      `\`webhook\` of ${what} has no \`secret\``,
      'add `secret: NAME`, and set its value with `voidbox secret set NAME`; `verify: none` accepts every request',
    );
    return null;
  }
  if (verify.variant === 'mapping') return hmac === null ? null : { scheme: 'hmac', secret: secret.value, ...hmac };
  return verify.word === 'none' ? null : { scheme: verify.word, secret: secret.value };
}

type HmacSpec = Extract<VerifySpec, { readonly variant: 'mapping' }>;

function compileHmac(
  { header, prefix, algorithm, encoding, timestamp }: HmacSpec,
  { what, problems }: SourceContext,
): Omit<Extract<WebhookVerify, { readonly scheme: 'hmac' }>, 'scheme' | 'secret'> | null {
  const errorsBefore = problems.errorCount();
  const headers = [header, ...(timestamp === null ? [] : [timestamp])];
  for (const { value, at } of headers)
    if (value !== '' && !isHeader(value))
      problems.error(
        'spec/bad-value',
        at,
        `\`verify\` of ${what} names the header ${quote(value)}`,
        `use letters, digits and hyphens, at most ${TRIGGER_LIMITS.headerCharacters} characters`,
      );
  if (timestamp !== null && timestamp.value.toLowerCase() === header.value.toLowerCase())
    problems.error(
      'spec/bad-value',
      timestamp.at,
      `\`verify\` of ${what} names the header ${quote(timestamp.value)} for both the signature and the time`,
      'name the header with the time',
    );
  if (
    prefix !== null &&
    (prefix.value.length > TRIGGER_LIMITS.prefixCharacters || !/^[\x20-\x7e]*$/.test(prefix.value))
  )
    problems.error(
      'spec/bad-value',
      prefix.at,
      `\`prefix\` of \`verify\` of ${what} is ${quote(prefix.value)}`,
      `write printable ASCII characters, at most ${TRIGGER_LIMITS.prefixCharacters}`,
    );
  if (problems.errorCount() > errorsBefore) return null;
  return {
    header: header.value.toLowerCase(),
    prefix: prefix?.value ?? HMAC_DEFAULTS.prefix,
    algorithm: algorithm?.value ?? HMAC_DEFAULTS.algorithm,
    encoding: encoding?.value ?? HMAC_DEFAULTS.encoding,
    timestamp: timestamp?.value.toLowerCase() ?? HMAC_DEFAULTS.timestamp,
  };
}

function isHeader(name: string): boolean {
  return name.length <= TRIGGER_LIMITS.headerCharacters && /^[A-Za-z0-9-]+$/.test(name);
}

function compileSchedule(schedule: ScheduleSpec, context: SourceContext): ScheduleSource | null {
  const { what, problems } = context;
  const errorsBefore = problems.errorCount();
  const calendars = (schedule.calendars ?? []).slice(0, TRIGGER_LIMITS.cronLines);
  const cron = [
    ...(schedule.cron ?? []).flatMap((line) => compileCron(line, context)),
    ...calendars.flatMap((calendar) => compileCalendar(calendar, context)),
  ];
  const overCalendar = schedule.calendars?.[TRIGGER_LIMITS.cronLines];
  if (overCalendar !== undefined)
    problems.error(
      'spec/too-large',
      overCalendar.at,
      `${what} has ${schedule.calendars!.length} calendars; at most ${TRIGGER_LIMITS.cronLines} are allowed`,
      'write lists and ranges in one calendar, or add a trigger',
    );
  const over = schedule.cron?.[TRIGGER_LIMITS.cronLines];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over.at,
      `\`cron\` of ${what} has ${schedule.cron!.length} lines; at most ${TRIGGER_LIMITS.cronLines} are allowed`,
      'write lists and ranges in one line, or add a trigger',
    );
  const timezone = compileTimeZone(schedule.timezone, context);
  if (schedule.windowMs !== null && (schedule.catchup?.value ?? SCHEDULE_DEFAULTS.catchup) === 'none')
    problems.warning(
      'spec/bad-value',
      schedule.at,
      `\`window\` of ${what} has no effect without \`catchup\``,
      'write `catchup: last` or `catchup: all`, or remove `window`',
    );
  if (problems.errorCount() > errorsBefore) return null;
  return {
    kind: 'schedule',
    cron,
    everyMs: schedule.everyMs,
    timezone,
    jitterMs: schedule.jitterMs ?? SCHEDULE_DEFAULTS.jitterMs,
    catchup: schedule.catchup?.value ?? SCHEDULE_DEFAULTS.catchup,
    windowMs: schedule.windowMs ?? SCHEDULE_DEFAULTS.windowMs,
    overlap: schedule.overlap?.value ?? SCHEDULE_DEFAULTS.overlap,
  };
}

function compileCron({ value, at }: Located<string>, { what, problems }: SourceContext): readonly string[] {
  const read = readCron(value);
  if ('line' in read) return [read.line];
  problems.error('spec/bad-value', at, `\`cron\` of ${what} is ${quote(value)}, ${read.message}`, read.remedy);
  return [];
}

function compileCalendar(
  calendar: NonNullable<ScheduleSpec['calendars']>[number],
  { what, problems }: SourceContext,
): readonly string[] {
  const named = CALENDAR_FIELDS.filter((field) => calendar[field] !== null);
  if (named.length === 0) {
    problems.error(
      'spec/bad-value',
      calendar.at,
      `a calendar of ${what} names no time`,
      'name some of: minute, hour, day, month, weekday',
    );
    return [];
  }
  // The reader has already reported an empty text.
  if (named.some((field) => calendar[field]!.value === '')) return [];
  const texts = Object.fromEntries(named.map((field) => [field, calendar[field]!.value]));
  const read = readCalendar({ ...CALENDAR_DEFAULTS, ...texts });
  if ('line' in read) return [read.line];
  const { field, problem, remedy } = read;
  const [at, subject] =
    field === null
      ? [calendar.at, `a calendar of ${what}`]
      : [calendar[field]!.at, `\`${field}\` of a calendar of ${what}`];
  problems.error('spec/bad-value', at, `${subject} ${problem}`, remedy);
  return [];
}

function compileTimeZone(timezone: ScheduleSpec['timezone'], { what, problems }: SourceContext): string {
  // The reader has already reported an empty name.
  if (timezone === null || timezone.value === '') return SCHEDULE_DEFAULTS.timezone;
  const found = findTimeZone(timezone.value);
  if (found !== null) return found;
  problems.error(
    'spec/bad-value',
    timezone.at,
    `\`timezone\` of ${what} is ${quote(timezone.value)}, which is not a time zone`,
    'write a name of the IANA database, such as Europe/Berlin or UTC',
  );
  return SCHEDULE_DEFAULTS.timezone;
}
