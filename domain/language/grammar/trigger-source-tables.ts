import {
  CATCHUPS,
  HMAC_ALGORITHMS,
  HMAC_ENCODINGS,
  HOOK_FORMATS,
  NAMED_SCHEMES,
  OVERLAPS,
  RUN_ENDS,
} from '../../delivery/trigger.ts';
import {
  HMAC_DEFAULTS,
  RESPOND_DEFAULTS,
  RUN_DEFAULTS,
  SCHEDULE_DEFAULTS,
  TRIGGER_LIMITS,
  WEBHOOK_DEFAULTS,
} from '../../delivery/trigger-defaults.ts';
import { writeDurationMs } from '../../units/duration.ts';
import type { MappingTable } from './table.ts';
import { DURATIONS, RANGES, SCALES } from './values.ts';

/** The values of `verify` that are words. */
export const VERIFY_WORDS = [...NAMED_SCHEMES, 'none'] as const;

const HMAC = {
  keys: {
    header: {
      as: 'header',
      type: { is: 'text', holds: 'name of a header', plain: true, filled: 'name the header with the signature' },
      required: true,
      doc: 'The header with the signature.',
      example: 'X-Signature',
    },
    prefix: {
      as: 'prefix',
      type: { is: 'text', holds: 'text', plain: true },
      default: HMAC_DEFAULTS.prefix,
      doc: 'The text before the signature.',
      example: 'sha256=',
    },
    algorithm: {
      as: 'algorithm',
      type: { is: 'word', words: HMAC_ALGORITHMS },
      default: HMAC_DEFAULTS.algorithm,
      mistaken: ['hash', 'digest'],
      doc: 'The hash of the HMAC.',
      example: 'sha512',
    },
    encoding: {
      as: 'encoding',
      type: { is: 'word', words: HMAC_ENCODINGS },
      default: HMAC_DEFAULTS.encoding,
      doc: 'The form of the signature.',
      example: 'base64',
    },
    timestamp: {
      as: 'timestamp',
      type: { is: 'text', holds: 'name of a header', plain: true, filled: 'name the header with the time' },
      mistaken: ['timestamp_header', 'time'],
      otherwise: 'the sender states no time',
      doc: 'The header with the time in seconds since 1970. The signature is then of `TIME.BODY`, and older than 5 minutes is refused.',
      example: 'X-Timestamp',
    },
  },
} as const satisfies MappingTable;

const RESPOND = {
  keys: {
    wait_secs: {
      as: 'waitMs',
      type: { is: 'number', range: RANGES.respondSecs, scale: SCALES.msPerSecond },
      default: RESPOND_DEFAULTS.waitMs / SCALES.msPerSecond,
      mistaken: ['timeout_secs', 'wait', 'timeout'],
      doc: 'The sender waits this long for the end of the run, and then gets 202.',
      example: 10,
    },
    output: {
      as: 'output',
      type: { is: 'text', holds: "a stage's name", filled: 'name a stage, or remove it' },
      mistaken: ['stage', 'body', 'from'],
      otherwise: 'the output of the run',
      doc: 'The stage whose output is the answer.',
      example: 'report',
    },
    status: {
      as: 'status',
      type: { is: 'number', range: RANGES.successStatus },
      default: RESPOND_DEFAULTS.status,
      mistaken: ['code', 'status_code'],
      doc: 'The HTTP status if the run has succeeded in time.',
      example: 201,
    },
  },
} as const satisfies MappingTable;

export const WEBHOOK = {
  form: (text) => `{ verify: ${text}, secret: NAME }`,
  keys: {
    verify: {
      as: 'verify',
      type: { is: 'choice', words: VERIFY_WORDS, table: HMAC },
      required: true,
      mistaken: ['scheme', 'provider', 'type', 'signature'],
      form: 'verify: github',
      doc: 'The sender whose signature the service checks. A mapping describes a signature by HMAC. `none` accepts every request.',
      example: 'github',
    },
    secret: {
      as: 'secret',
      type: { is: 'text', holds: 'name of a secret', variable: true },
      feeds: 'trigger-secrets',
      mistaken: ['secrets', 'token', 'key'],
      otherwise: 'required, except with `verify: none`',
      doc: 'The secret of the deployment that the sender also has.',
      example: 'GITHUB_WEBHOOK_SECRET',
    },
    format: {
      as: 'format',
      type: { is: 'word', words: HOOK_FORMATS },
      default: WEBHOOK_DEFAULTS.format,
      mistaken: ['content_type', 'mode', 'envelope'],
      doc: 'With `cloudevents`, each request is an event of CloudEvents 1.0 or a batch of them, and the payload is the data of an event.',
      example: 'cloudevents',
    },
    respond: {
      as: 'respond',
      type: { is: 'mapping', table: RESPOND },
      mistaken: ['response', 'reply', 'answer'],
      otherwise: '202 at once',
      doc: 'The sender waits for the run and gets its output.',
      example: { wait_secs: 10 },
    },
  },
} as const satisfies MappingTable;

const CALENDAR_FIELD = { is: 'text', holds: 'numbers', lenient: true } as const;

const CALENDAR = {
  keys: {
    minute: {
      as: 'minute',
      type: { ...CALENDAR_FIELD, filled: 'write a number, such as 30, or remove it' },
      default: 0,
      mistaken: ['minutes'],
      doc: 'Minutes, as a field of a line of cron: `30`, `0,30` or `*/10`.',
      example: 30,
    },
    hour: {
      as: 'hour',
      type: { ...CALENDAR_FIELD, filled: 'write a number, such as 9, or remove it' },
      default: 0,
      mistaken: ['hours'],
      doc: 'Hours, 0 to 23.',
      example: 9,
    },
    day: {
      as: 'day',
      type: { ...CALENDAR_FIELD, filled: 'write a number or a range, such as 1-7, or remove it' },
      default: '*',
      mistaken: ['days', 'day_of_month', 'date'],
      doc: 'Days of the month, 1 to 31.',
      example: '1-7',
    },
    month: {
      as: 'month',
      type: { ...CALENDAR_FIELD, filled: 'write a number or a name, such as jan, or remove it' },
      default: '*',
      mistaken: ['months'],
      doc: 'Months, 1 to 12 or by name.',
      example: 'jan,jul',
    },
    weekday: {
      as: 'weekday',
      type: { ...CALENDAR_FIELD, filled: 'write a number or a name, such as mon, or remove it' },
      default: '*',
      mistaken: ['weekdays', 'day_of_week', 'dow'],
      doc: 'Days of the week, 0 to 7 or by name. `day` must hold too.',
      example: 'mon',
    },
  },
} as const satisfies MappingTable;

export const SCHEDULE = {
  form: (text) => `{ cron: ${JSON.stringify(text)} }`,
  keys: {
    cron: {
      as: 'cron',
      type: {
        is: 'list',
        of: { is: 'text', holds: 'line of cron', plain: true },
        alone: true,
        item: '`cron`',
        items: 'lines of cron, or one line',
        most: TRIGGER_LIMITS.cronLines,
        filled: { remedy: 'write a line, such as `30 2 * * 1-5`' },
      },
      group: 'times',
      form: 'cron: "30 2 * * 1-5"` or `every: 1h',
      doc: 'Minute, hour, day of the month, month and day of the week. See [Lines of cron](#lines-of-cron).',
      example: '30 2 * * 1-5',
    },
    calendars: {
      as: 'calendars',
      type: {
        is: 'list',
        of: { is: 'mapping', table: CALENDAR },
        item: 'calendar #',
        most: TRIGGER_LIMITS.cronLines,
        filled: { remedy: 'write a calendar, such as `{ weekday: mon, day: 1-7, hour: 9 }`' },
      },
      group: 'times',
      mistaken: ['calendar'],
      doc: 'Times whose fields all hold. See [Calendars](#calendars).',
      example: [{ weekday: 'mon', day: '1-7', hour: 9 }],
    },
    every: {
      as: 'everyMs',
      type: { is: 'duration', range: DURATIONS.interval },
      group: 'times',
      mistaken: ['interval', 'period'],
      doc: 'The time between two starts, counted from 1970.',
      example: '6h',
    },
    timezone: {
      as: 'timezone',
      type: { is: 'text', holds: 'time zone', plain: true, filled: 'name a time zone, such as Europe/Berlin' },
      excludes: ['every'],
      mistaken: ['tz', 'time_zone', 'zone'],
      default: SCHEDULE_DEFAULTS.timezone,
      doc: 'The time zone of `cron` and `calendars`, by its name in the IANA database.',
      example: 'Europe/Berlin',
    },
    jitter: {
      as: 'jitterMs',
      type: { is: 'duration', range: DURATIONS.jitter },
      default: writeDurationMs(SCHEDULE_DEFAULTS.jitterMs),
      mistaken: ['splay', 'random_delay'],
      doc: 'Each start is later by a random part of this.',
      example: '5m',
    },
    catchup: {
      as: 'catchup',
      type: { is: 'word', words: CATCHUPS },
      default: SCHEDULE_DEFAULTS.catchup,
      mistaken: ['catch_up', 'backfill', 'missed'],
      doc: 'The missed times that start a run afterwards, for example after an outage.',
      example: 'last',
    },
    window: {
      as: 'windowMs',
      type: { is: 'duration', range: DURATIONS.catchupWindow },
      default: writeDurationMs(SCHEDULE_DEFAULTS.windowMs),
      needs: 'catchup',
      mistaken: ['catchup_window', 'starting_deadline'],
      doc: '`catchup` ignores older times.',
      example: '12h',
    },
    overlap: {
      as: 'overlap',
      type: { is: 'word', words: OVERLAPS },
      default: SCHEDULE_DEFAULTS.overlap,
      mistaken: ['concurrency', 'concurrency_policy', 'overlap_policy'],
      doc: 'The rule for a time at which a run of an earlier time is open.',
      example: 'queue',
    },
  },
} as const satisfies MappingTable;

export const RUN = {
  form: (text) => `{ of: ${text} }`,
  keys: {
    of: {
      as: 'of',
      type: { is: 'text', holds: 'name of a deployment', plain: true, filled: 'name a deployment' },
      required: true,
      mistaken: ['deployment', 'name', 'workflow', 'after'],
      form: 'of: NAME',
      doc: 'The other deployment. The end of one of its runs is the event.',
      example: 'build',
    },
    state: {
      as: 'states',
      type: {
        is: 'list',
        of: { is: 'text', holds: 'state of a run', plain: true },
        alone: true,
        item: '`state`',
        items: `${RUN_ENDS.map((state) => `\`${state}\``).join(', ')}, one or several`,
        filled: { remedy: 'name a state, such as `failed`, or remove it' },
      },
      mistaken: ['states', 'status', 'types', 'conclusion', 'outcome'],
      otherwise: `\`${RUN_DEFAULTS.states[0]}\``,
      doc: 'The ends that are events.',
      example: ['failed', 'terminated'],
    },
    when: {
      as: 'when',
      type: {
        is: 'text',
        holds: 'expression',
        lenient: true,
        filled: 'write a condition, such as `input.failure.stage == "test"`, or remove it',
      },
      otherwise: 'each of these ends',
      doc: 'The same as `when` of the trigger. Only one of them is allowed.',
      example: 'input.version > 3',
    },
    output: {
      as: 'output',
      type: {
        is: 'text',
        holds: "a stage's name",
        plain: true,
        filled: 'name a stage of the other deployment, or remove it',
      },
      mistaken: ['stage', 'input', 'artifact', 'outputs', 'file'],
      otherwise: 'the payload',
      doc: 'The input of the run: the output of this stage of the ended run, or `STAGE.OUTPUT`, as a file. Neither with `input` nor with `batch`.',
      example: 'compile',
    },
  },
} as const satisfies MappingTable;
