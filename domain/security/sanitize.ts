/**
 * Output of a guest is hostile: an escape sequence can move the cursor, rewrite earlier lines, set the clipboard or
 * make a terminal write to our standard input. All text from guests passes through here before it is printed; raw bytes
 * leave only by `result` and `logs --raw`.
 */

import { ESCAPE_CHARACTERS } from './escape-reader.ts';

/* eslint-disable no-control-regex -- control characters are the subject */

/**
 * ECMA-48 §5.4 (CSI), §5.6 (OSC, DCS, SOS, PM, APC up to BEL or ST), and two-byte escapes, in 7-bit and 8-bit forms.
 * `escape-reader.ts` reads the same sequences, because redaction must find a secret that has one inside.
 */
const ESCAPE_SEQUENCE = new RegExp(
  [
    '(?:\\u001b\\[|\\u009b)[\\u0030-\\u003f]*[\\u0020-\\u002f]*[\\u0040-\\u007e]',
    '(?:\\u001b[\\]PX^_]|[\\u0090\\u0098\\u009d-\\u009f])[^\\u0007\\u001b\\u0080-\\u009f\\n]*(?:\\u0007|\\u001b\\\\|\\u009c)',
    '\\u001b(?:[\\u0030-\\u004f\\u0051-\\u0057\\u0059\\u005a\\u005c\\u0060-\\u007e]|[\\u0020-\\u002f]+[\\u0030-\\u005a\\u005c\\u0060-\\u007e])',
  ].join('|'),
  'g',
);

/** C0 and C1 controls but tab and line feed, DEL, and the marks that reorder text (Unicode TR9 §2). */
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]/g;

/**
 * Text that is safe to print. Known escape sequences are removed; other control characters, and sequences of more than
 * 4,096 characters, become visible signs. Line feeds and tabs stay; a carriage return before a line feed is removed.
 */
export function sanitize(text: string): string {
  // Each pattern matches a whole run of its first character. Otherwise a long run would be scanned again from each of
  // its characters.
  return text
    .replace(/(?<!\r)\r+\n/g, '\n')
    .replace(ESCAPE_SEQUENCE, (sequence) => (sequence.length > ESCAPE_CHARACTERS ? '␛' : ''))
    .replace(CONTROL, visible);
}

/** Like `sanitize`, for a value on one line: a name, a message, a cell of a table. */
export function sanitizeLine(text: string): string {
  return sanitize(text)
    .replace(/(?<!\n)\n+$/, '')
    .replace(/\n/g, '␊')
    .replace(/\t/g, ' ');
}

/** Unicode has a picture for each C0 control at U+2400 and for DEL at U+2421. */
function visible(character: string): string {
  const code = character.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return '␡';
  return '�';
}
