import { expect, test } from 'vitest';
import { CALENDAR_DEFAULTS, type CalendarTexts, readCalendar, readCron } from './cron.ts';

test.each([
  ['30 2 * * 1-5', '30 2 * * 1-5'],
  ['  0   0 1 * * ', '0 0 1 * *'],
  ['*/10 8-18/2 * jan,Mar-APR *', '*/10 8-18/2 * 1,3-4 *'],
  ['0 0 * * SUN', '0 0 * * 0'],
  ['0 0 * * 7', '0 0 * * 0'],
  ['0 0 * * mon-7', '0 0 * * 1,2,3,4,5,6,0'],
  ['0 0 * * 1-7/3', '0 0 * * 1,4,0'],
  ['0 0 29 2 *', '0 0 29 2 *'],
  ['0 0 31 2,3 *', '0 0 31 2,3 *'],
  ['05 09 * * *', '5 9 * * *'],
])('a line is written with numbers: %s', (line, written) => {
  expect(readCron(line)).toEqual({ line: written });
});

test.each([
  ['', 'has 0 fields'],
  ['0 0 * * * *', 'has 6 fields'],
  ['0 0 * * ?', 'day of the week has "?"'],
  ['0 0 * * 5#2', 'day of the week has "5#2"'],
  ['0 0 15W * *', 'day of the month has "15W"'],
  ['0 0 * * 8', 'day of the week has "8"'],
  ['0 24 * * *', 'hour has "24"'],
  ['0 0 0 * *', 'day of the month has "0"'],
  ['0 0 * 13 *', 'month has "13"'],
  ['1- 0 * * *', 'minute has "1-"'],
  ['1-2-3 0 * * *', 'minute has "1-2-3"'],
  ['-1 0 * * *', 'minute has "-1"'],
  ['1/2/3 0 * * *', 'minute has "1/2/3"'],
  ['*/60 * * * *', 'minute has the step 60'],
  ['5-1 * * * *', 'which ends before it begins'],
  ['0 0 31 4,6 *', 'a day that no month has'],
  ['0 0 */2 * 1', 'both the day of the month and the day of the week'],
  ['jan 0 * * *', 'minute has "jan"'],
  ['@reboot', 'is not a line with 5 fields'],
  ['__proto__ 0 * * *', 'minute has "__proto__"'],
  [`${'0,'.repeat(200)}0 * * * *`, 'at most 256 are allowed'],
])('a line with a mistake has a remedy: %s', (line, message) => {
  const read = readCron(line);
  expect(read).toMatchObject({ message: expect.stringContaining(message) as string });
  expect(read).toMatchObject({ remedy: expect.stringMatching(/\w/) as string });
});

test.each<[Partial<CalendarTexts>, string]>([
  [{ day: '1-7', weekday: 'mon', hour: '9' }, '0 9 1-7 * 1'],
  [{ minute: '*/20', hour: '8-10', day: '13', month: 'Jan-mar', weekday: '7' }, '*/20 8-10 13 1-3 0'],
  [{ day: '29', month: 'feb' }, '0 0 29 2 *'],
])('a calendar is a line whose fields all hold: %j', (texts, line) => {
  expect(readCalendar({ ...CALENDAR_DEFAULTS, ...texts })).toEqual({ line });
});

test.each<[Partial<CalendarTexts>, string | null, string]>([
  [{ hour: '24' }, 'hour', 'has "24"'],
  [{ weekday: 'fryday' }, 'weekday', 'has "fryday"'],
  [{ day: '7-1' }, 'day', 'which ends before it begins'],
  [{ minute: '1 2' }, 'minute', 'has "1 2"'],
  [{ day: '30', month: '2', weekday: '1' }, null, 'names a day that no month has'],
])('a calendar with a mistake names its field and has a remedy: %j', (texts, field, problem) => {
  const read = readCalendar({ ...CALENDAR_DEFAULTS, ...texts });
  expect(read).toMatchObject({ field, problem: expect.stringContaining(problem) as string });
  expect(read).toMatchObject({ remedy: expect.stringMatching(/\w/) as string });
});

test('a calendar has at most 256 characters as a line', () => {
  const read = (minute: string) => readCalendar({ ...CALENDAR_DEFAULTS, minute });
  const longest = `${'0,'.repeat(123)}10`;
  expect(read(longest)).toEqual({ line: `${longest} 0 * * *` });
  expect(`${longest} 0 * * *`).toHaveLength(256);
  expect(read(`${'0,'.repeat(124)}0`)).toMatchObject({ problem: 'has 257 characters; at most 256 are allowed' });
});
