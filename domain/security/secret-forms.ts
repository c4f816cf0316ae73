/** The forms in which a secret may leave a stage: plain, JSON, URL-encoded, base64 and hexadecimal. */
import { encodeUtf8 } from '../units/utf8.ts';

export interface SecretForms {
  readonly plain: readonly string[];
  /** Forms of digits that tools may break into lines of equal length. */
  readonly wrapped: readonly string[];
}

/** Shorter texts would redact ordinary words. */
export const SECRET_MIN_BYTES = 6;

/** A longer text gets only the usual forms, because every form costs memory for each of its characters. */
const ALL_FORMS_BYTES = 4 * 1024;

/** Returns the forms of a value and, if the value has several lines, of each line. */
export function formsOf(value: string): SecretForms {
  const lines = value.split(/\r?\n/).map((line) => line.trim());
  const isLong = (text: string): boolean => encodeUtf8(text).length >= SECRET_MIN_BYTES;
  // An encoding of the whole value contains the encodings of its long lines. Only a short line would remain.
  const inLines = lines.length > 1 && lines.every((line) => line === '' || isLong(line));
  const wholes = [value, value.trim()].filter(isLong);
  const pieces = (inLines ? lines : [...wholes, ...lines]).filter(isLong);
  const all = pieces.filter((text) => encodeUtf8(text).length <= ALL_FORMS_BYTES);
  return {
    plain: distinct([
      // A terminal ends lines with CRLF. Long lines are found one by one.
      ...(inLines ? [] : wholes.map((text) => text.replaceAll(/\r?\n/g, '\r\n'))),
      ...[...wholes, ...pieces].flatMap((text) => [text, jsonForm(text), percentForm(text, URI_COMPONENT, 'upper')]),
      ...all.flatMap((text) => [...jsonForms(text), ...percentForms(text)]),
    ]),
    wrapped: distinct([...pieces.flatMap((text) => base64Forms(encodeUtf8(text))), ...all.flatMap(hexForms)]),
  };
}

function distinct(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)];
}

function jsonForm(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** The forms of JSON encoders in other languages: only ASCII, safe in HTML, `\/`; and JSON inside a JSON string. */
function jsonForms(text: string): readonly string[] {
  const json = jsonForm(text);
  const safe = [json, escaped(json, /[<>&]/g), escaped(json, /[<>&=']/g)];
  const ascii = safe.flatMap((form) => [
    form,
    escaped(form, NOT_ASCII),
    escaped(form, NOT_ASCII).replaceAll(/\\u[0-9a-f]{4}/g, (unit) => `\\u${unit.slice(2).toUpperCase()}`),
  ]);
  return [...ascii, ...ascii.map((form) => form.replaceAll('/', '\\/')), jsonForm(json)];
}

const NOT_ASCII = /[^\x20-\x7e]/g;

/** Escapes each UTF-16 unit. */
function escaped(text: string, characters: RegExp): string {
  return text.replaceAll(characters, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The characters that encoders of URLs leave as they are, one set for each kind of encoder. */
const URI_COMPONENT = /[\w.!~*'()-]/;
const UNRESERVED = /[\w.~-]/;
const PATH = /[\w.~/-]/;
const URI = /[\w.!~*'();/?:@&=+$,#-]/;
const FORM = /[\w.*-]/;
const NOTHING = /[^]{2}/;

function percentForms(text: string): readonly string[] {
  return (['upper', 'lower'] as const).flatMap((digits) => [
    ...[URI_COMPONENT, UNRESERVED, PATH, URI, NOTHING].map((kept) => percentForm(text, kept, digits)),
    ...[UNRESERVED, FORM].map((kept) => percentForm(text, kept, digits).replaceAll('%20', '+')),
  ]);
}

function percentForm(text: string, kept: RegExp, digits: 'upper' | 'lower'): string {
  let form = '';
  for (const byte of encodeUtf8(text)) {
    const character = String.fromCharCode(byte);
    const code = byte.toString(16).padStart(2, '0');
    form += byte < 0x80 && kept.test(character) ? character : `%${digits === 'upper' ? code.toUpperCase() : code}`;
  }
  return form;
}

function hexForms(text: string): readonly string[] {
  const hex = Array.from(encodeUtf8(text), (byte) => byte.toString(16).padStart(2, '0')).join('');
  return [hex, hex.toUpperCase()];
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/**
 * The forms of the value inside a longer text, for each of its three offsets in a group of base64. The first form has
 * only the characters that no neighbour changes. The others include the last character, for a value at the end of the
 * text.
 */
function base64Forms(bytes: Uint8Array): readonly string[] {
  return [0, 1, 2].flatMap((before) => {
    const first = Math.ceil((before * 8) / 6);
    const bits = (before + bytes.length) * 8;
    const whole = base64Digits(bytes, before);
    const padded = whole.padEnd(Math.ceil(whole.length / 4) * 4, '=');
    const forms = [whole.slice(first, Math.floor(bits / 6)), whole.slice(first), padded.slice(first)];
    return [...forms, ...forms.map((form) => form.replaceAll('+', '-').replaceAll('/', '_'))];
  });
}

/** The digits with zero bytes before the value and zero bits after it, without padding. */
function base64Digits(bytes: Uint8Array, before: number): string {
  let digits = '';
  let held = 0;
  let bits = 0;
  for (let index = -before; index < bytes.length; index += 1) {
    held = ((held << 8) | (bytes[index] ?? 0)) & 0xfff;
    for (bits += 8; bits >= 6; bits -= 6) digits += BASE64[(held >> (bits - 6)) & 0x3f]!;
  }
  return bits === 0 ? digits : digits + BASE64[(held << (6 - bits)) & 0x3f]!;
}
