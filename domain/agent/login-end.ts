/** The expiry of a person's login, which no program renews in a guest. */
import { isDateMs } from '../units/time.ts';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/** The key of an expiry among the values of a run. Other keys are names of variables, which contain no colon. */
export function loginEndKey(variable: string): string {
  return `login-end:${variable}`;
}

export function writeLoginEnd(endsAtMs: number): string {
  return new Date(endsAtMs).toISOString();
}

/** Null: the text is not a time. */
export function readLoginEnd(text: string | undefined): number | null {
  const ms = text === undefined ? Number.NaN : Date.parse(text);
  return Number.isNaN(ms) ? null : ms;
}

/** Reads the expiry of a JSON web token. Null: it is not a JSON web token, or has no expiry. */
export function endOfToken(token: string): number | null {
  try {
    const claims = JSON.parse(decodePart(token.split('.')[1] ?? '')) as { readonly exp?: unknown } | null;
    const exp = claims?.exp;
    return typeof exp === 'number' && isDateMs(exp * 1000) ? exp * 1000 : null;
  } catch {
    return null;
  }
}

/**
 * Decodes each byte to one character. That is enough, because the caller reads only a number. No quote, comma or brace
 * is a byte of a longer character.
 */
function decodePart(base64url: string): string {
  let text = '';
  let bits = 0;
  let value = 0;
  for (const character of base64url.replace(/=+$/, '')) {
    const digit = ALPHABET.indexOf(character === '+' ? '-' : character === '/' ? '_' : character);
    if (digit < 0) return '';
    value = ((value << 6) | digit) & 0xffff;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    text += String.fromCharCode((value >> bits) & 0xff);
  }
  return text;
}
