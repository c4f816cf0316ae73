import { expect, test } from 'vitest';
import { readCron } from './cron.ts';

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
