/**
 * Checks a line of cron or a calendar, and writes it as a line with numbers only. The server of Temporal computes the times; here mistakes get
 * their remedy at their place.
 */

interface Field {
  readonly name: string;
  readonly least: number;
  readonly most: number;
  /** Names of the values from `least` on. */
  readonly words: readonly string[];
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];

const MINUTE: Field = { name: 'minute', least: 0, most: 59, words: [] };
const HOUR: Field = { name: 'hour', least: 0, most: 23, words: [] };
const DAY: Field = { name: 'day of the month', least: 1, most: 31, words: [] };
const MONTH: Field = { name: 'month', least: 1, most: 12, words: MONTHS };
/** 7 is Sunday, too. */
const WEEKDAY: Field = { name: 'day of the week', least: 0, most: 7, words: DAYS };
/** In the order of a line. */
const FIELDS = [MINUTE, HOUR, DAY, MONTH, WEEKDAY] as const;

/** The keys of a calendar, in the same order. */
export const CALENDAR_FIELDS = ['minute', 'hour', 'day', 'month', 'weekday'] as const;
export type CalendarField = (typeof CALENDAR_FIELDS)[number];

/** The most days of each month. */
const MONTH_DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

const NICKNAMES: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};

/** Longer than any useful line. */
const LINE_CHARACTERS = 256;

export interface CronProblem {
  /** Continues `cron is "…", `. */
  readonly message: string;
  readonly remedy: string;
}

/** Returns the line with numbers instead of names, and with single spaces. */
export function readCron(line: string): { readonly line: string } | CronProblem {
  if (line.length > LINE_CHARACTERS)
    return {
      message: `which has ${line.length} characters; at most ${LINE_CHARACTERS} are allowed`,
      remedy: 'write several lines',
    };
  const trimmed = line.trim();
  if (trimmed.startsWith('@')) return refuseNickname(trimmed);
  const texts = trimmed === '' ? [] : trimmed.split(/\s+/);
  if (/^(?:CRON_)?TZ=/.test(trimmed))
    return { message: 'which has a time zone', remedy: 'write the zone in `timezone` of the schedule' };
  if (texts.length !== 5)
    return {
      message: `which has ${texts.length} field${texts.length === 1 ? '' : 's'}, but 5 are needed`,
      remedy: 'write minute, hour, day of the month, month and day of the week, such as `30 2 * * 1-5`',
    };
  const read = FIELDS.map((field, index) => readField(texts[index]!, field));
  for (const [index, each] of read.entries())
    if ('problem' in each) return { message: `whose ${FIELDS[index]!.name} ${each.problem}`, remedy: each.remedy };
  const fields = read as readonly ReadField[];
  const [, , days, months, weekdays] = fields;
  if (!isAny(texts[2]!) && !isAny(texts[4]!))
    return {
      message: 'which restricts both the day of the month and the day of the week; systems read this differently',
      remedy:
        'write two lines to start on either day; to start on days that are both, write them in `calendars` instead of `cron`',
    };
  if (isAny(texts[4]!) && !canHappen(days!.values, months!.values))
    return { message: 'which names a day that no month has', remedy: 'correct the day of the month or the month' };
  return { line: [...fields.slice(0, 4).map(({ text }) => text), weekdays!.text].join(' ') };
}

/** The texts of a calendar. Each has the form of a field of cron. */
export type CalendarTexts = Readonly<Record<CalendarField, string>>;

/** The fields that a calendar does not name. */
export const CALENDAR_DEFAULTS: CalendarTexts = { minute: '0', hour: '0', day: '*', month: '*', weekday: '*' };

export interface CalendarProblem {
  /** Null: the calendar as a whole. */
  readonly field: CalendarField | null;
  /** Continues the name of the field or of the calendar. */
  readonly problem: string;
  readonly remedy: string;
}

/**
 * Returns a calendar as a line of cron. All of its fields must hold: the server of Temporal reads a line that restricts
 * both days in this way.
 */
export function readCalendar(texts: CalendarTexts): { readonly line: string } | CalendarProblem {
  const fields: ReadField[] = [];
  for (const [index, field] of CALENDAR_FIELDS.entries()) {
    const read = readField(texts[field], FIELDS[index]!);
    if ('problem' in read) return { field, ...read };
    fields.push(read);
  }
  const [, , days, months] = fields;
  if (!canHappen(days!.values, months!.values))
    return { field: null, problem: 'names a day that no month has', remedy: 'correct `day` or `month`' };
  const line = fields.map(({ text }) => text).join(' ');
  if (line.length <= LINE_CHARACTERS) return { line };
  const problem = `has ${line.length} characters; at most ${LINE_CHARACTERS} are allowed`;
  return { field: null, problem, remedy: 'write several calendars' };
}

function refuseNickname(text: string): CronProblem {
  const [word = ''] = text.toLowerCase().split(/\s/, 1);
  if (word === '@every')
    return {
      message: 'which is an interval',
      remedy: `write \`every: ${text.slice(word.length).trim() || '1h'}\` instead of \`cron\``,
    };
  const fields = Object.hasOwn(NICKNAMES, word) ? NICKNAMES[word]! : '0 0 * * *';
  return { message: 'which is not a line with 5 fields', remedy: `write \`${fields}\`` };
}

function isAny(text: string): boolean {
  return text === '*';
}

function canHappen(days: ReadonlySet<number>, months: ReadonlySet<number>): boolean {
  return [...months].some((month) => [...days].some((day) => day <= MONTH_DAYS[month - 1]!));
}

interface ReadField {
  readonly text: string;
  readonly values: ReadonlySet<number>;
}

interface FieldProblem {
  /** Continues the name of the field. */
  readonly problem: string;
  readonly remedy: string;
}

function readField(text: string, field: Field): ReadField | FieldProblem {
  const values = new Set<number>();
  const texts: string[] = [];
  for (const item of text.split(',')) {
    const read = readItem(item, field);
    if ('problem' in read) return read;
    for (const value of read.values) values.add(value);
    texts.push(read.text);
  }
  return { text: texts.join(','), values };
}

const ITEM = /^(?:(\*)|([a-z\d]+)(?:-([a-z\d]+))?)(?:\/(\d+))?$/i;

function readItem(item: string, field: Field): ReadField | FieldProblem {
  const refuse = (problem: string, remedy: string): FieldProblem => ({ problem, remedy });
  const most = field === WEEKDAY ? 6 : field.most;
  const found = ITEM.exec(item);
  if (found === null)
    return refuse(
      item === '' ? 'has an empty value' : `has ${JSON.stringify(item)}`,
      'write numbers, ranges such as `1-5`, lists such as `1,15`, steps such as `*/10`, or `*`',
    );
  const [, star, first, last, stepText] = found;
  const step = stepText === undefined ? 1 : Number(stepText);
  if (stepText !== undefined && (step < 1 || step > field.most))
    return refuse(`has the step ${stepText}`, `write a step from 1 to ${field.most}`);
  if (star !== undefined) return { text: item, values: listValues(field.least, most, step) };
  const from = readValue(first!, field);
  const to = last === undefined ? from : readValue(last, field);
  if (from === null || to === null)
    return refuse(
      `has ${JSON.stringify(from === null ? first! : last!)}`,
      `write a number from ${field.least} to ${field.most}${field.words.length === 0 ? '' : `, or a name such as ${field.words[1]!}`}`,
    );
  if (last === undefined && stepText !== undefined)
    return refuse(
      `has the step ${stepText} without a range`,
      `write the range, such as \`${first!}-${most}/${stepText}\``,
    );
  if (from > to)
    return refuse(
      `has the range ${item}, which ends before it begins`,
      `write two ranges: \`${from}-${most},${field.least}-${to}\``,
    );
  const values = listValues(from, to, step);
  if (field !== WEEKDAY || to < 7)
    return {
      text: `${from}${last === undefined ? '' : `-${to}`}${stepText === undefined ? '' : `/${stepText}`}`,
      values,
    };
  // Not every reader of cron takes 7 as the end of a range.
  const sundays = new Set([...values].map((value) => value % 7));
  return { text: [...sundays].join(','), values: sundays };
}

function listValues(from: number, to: number, step: number): ReadonlySet<number> {
  return new Set(Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, index) => from + index * step));
}

function readValue(text: string, { least, most, words }: Field): number | null {
  const word = words.indexOf(text.toLowerCase());
  if (word !== -1) return word + least;
  if (!/^\d{1,2}$/.test(text)) return null;
  const value = Number(text);
  return value >= least && value <= most ? value : null;
}
