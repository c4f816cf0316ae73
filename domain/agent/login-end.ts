/** When a person's login ends by itself: what nobody renews in a guest. */
import { isDateMs } from '../units/time.ts';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/** Beside the values that are handed over for a run, which are by names of variables: none has a colon. */
export function loginEndKey(variable: string): string {
  return `login-end:${variable}`;
}

export function writeLoginEnd(endsAtMs: number): string {
  return new Date(endsAtMs).toISOString();
}

/** Null: it is no time. */
export function readLoginEnd(text: string | undefined): number | null {
  const ms = text === undefined ? Number.NaN : Date.parse(text);
  return Number.isNaN(ms) ? null : ms;
}

/** As a JSON web token says it. Null: it is none, or does not say. */
export function endOfToken(token: string): number | null {
  try {
    const claims = JSON.parse(decodePart(token.split('.')[1] ?? '')) as { readonly exp?: unknown } | null;
    const exp = claims?.exp;
    return typeof exp === 'number' && isDateMs(exp * 1000) ? exp * 1000 : null;
  } catch {
    return null;
  }
}

/** A character for each byte: only numbers are read of it, and none of its quotes, commas and braces is part of a longer one. */
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
