import { expect, test } from 'vitest';
import { findTimeZone } from './timezone.ts';

test.each([
  ['Europe/Berlin', 'Europe/Berlin'],
  ['europe/berlin', 'Europe/Berlin'],
  ['UTC', 'UTC'],
  ['America/Argentina/Buenos_Aires', 'America/Argentina/Buenos_Aires'],
  ['Asia/Kolkata', 'Asia/Kolkata'],
  ['us/eastern', 'America/New_York'],
])('a time zone has the spelling of the IANA database: %s', (name, found) => {
  expect(findTimeZone(name)).toBe(found);
});

test.each(['Europe/Berln', '', '+01:00', 'GMT+1', '../etc/passwd', 'a'.repeat(65), 'Europe/Berlin\n', '__proto__'])(
  'another text is no time zone: %s',
  (name) => {
    expect(findTimeZone(name)).toBeNull();
  },
);
