import { describe, expect, test } from 'vitest';
import { cpuMsOf } from '../../test/rig/cpu-time.ts';
import { sanitize, sanitizeLine } from './sanitize.ts';

const ESC = '\u001b';
const check = (name: string, input: string, expected: string): void => {
  test(name, () => expect(sanitize(input)).toBe(expected));
};

describe('sanitize', () => {
  check('plain text, tabs and line feeds stay', 'a\tb\nc ✓ 日本', 'a\tb\nc ✓ 日本');
  check('colours are left out', `${ESC}[1;31mred${ESC}[0m`, 'red');
  check('cursor movement and erasing are left out', `${ESC}[2J${ESC}[H${ESC}[10A${ESC}[?25lgone`, 'gone');
  check('titles and clipboard writes are left out, ended by BEL', `a${ESC}]52;c;ZXZpbA==\u0007b`, 'ab');
  check('… and ended by ST', `a${ESC}]0;title${ESC}\\b`, 'ab');
  check('device control strings are left out', `${ESC}P$qm${ESC}\\x`, 'x');
  check('eight-bit controls are left out too', '\u009b31mred\u009d0;t\u009cx', 'redx');
  check('a reset of the terminal is left out', `${ESC}cx`, 'x');
  check('an unfinished sequence is shown, not sent', `x${ESC}[12`, 'x␛[12');
  check('an unfinished title does not swallow the next line', `${ESC}]0;t\nnext`, '␛]0;t\nnext');
  check('a lone escape is shown', `${ESC}`, '␛');
  check('BEL, backspace and NUL are shown', '\u0007\b\0', '␇␈␀');
  check('a carriage return before a line feed is left out', 'a\r\nb', 'a\nb');
  check('a carriage return that would overwrite is shown', 'good\rbad', 'good␍bad');
  check('marks that reorder text are shown', 'a\u202eb\u2066c', 'a�b�c');

  test('no input leaves a control character other than tab and line feed', () => {
    const everyControl = Array.from({ length: 0xa0 }, (_, code) => String.fromCharCode(code)).join('');
    const inputs = [
      everyControl,
      everyControl.repeat(2),
      [...everyControl].join(`${ESC}[`),
      [...everyControl].join(`${ESC}]`),
    ];
    // eslint-disable-next-line no-control-regex -- control characters are the subject
    for (const input of inputs) expect(sanitize(input)).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
  });

  test('a removed sequence does not create a new one', () => {
    // Without a second pass, the removal of the inner sequence would leave `ESC [ 31m`.
    // eslint-disable-next-line no-control-regex -- control characters are the subject
    expect(sanitize(`${ESC}${ESC}[0m[31m`)).not.toMatch(/\u001b/);
  });
});

test('sanitizeLine keeps a value on one line', () => {
  expect(sanitizeLine('a\nb\tc\n')).toBe('a␊b c');
});

test.each([
  ['carriage returns', '\r'],
  ['line feeds before a text', '\n'],
  ['unfinished titles', '\u001b]'],
  ['unfinished eight-bit controls', '\u0090'],
  ['unfinished colours', '\u001b[0;'],
])('a long run of %s takes no longer than other texts', async (_what, run) => {
  expect(await cpuMsOf(() => sanitizeLine(`${run.repeat(200_000)}x`))).toBeLessThan(5_000);
});
