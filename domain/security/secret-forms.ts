/** How a secret may be written where it leaves a stage: as it is, as JSON, in URLs, in base64 and in hexadecimal digits. */
import { utf8Encode } from '../units/utf8.ts';

export interface SecretForms {
  readonly plain: readonly string[];
  /** Of digits that tools break into lines of one length. */
  readonly wrapped: readonly string[];
}

/** Shorter texts would redact ordinary words. */
export const SECRET_MIN_BYTES = 6;

/** A longer text gets the usual forms alone: every form costs memory for each of its characters. */
const ALL_FORMS_BYTES = 4 * 1024;

/** Of a value and, where it has several lines, of each line. */
export function formsOf(value: string): SecretForms {
  const lines = value.split(/\r?\n/).map((line) => line.trim());
  const isLong = (text: string): boolean => utf8Encode(text).length >= SECRET_MIN_BYTES;
  // What encodes the whole value encodes its lines too; only with short ones a part of it would remain.
  const inLines = lines.length > 1 && lines.every((line) => line === '' || isLong(line));
  const wholes = [value, value.trim()].filter(isLong);
  const pieces = (inLines ? lines : [...wholes, ...lines]).filter(isLong);
  const all = pieces.filter((text) => utf8Encode(text).length <= ALL_FORMS_BYTES);
  return {
    plain: distinct([
      // As a terminal ends its lines. Long lines are found one by one.
      ...(inLines ? [] : wholes.map((text) => text.replaceAll(/\r?\n/g, '\r\n'))),
      ...[...wholes, ...pieces].flatMap((text) => [text, jsonForm(text), percentForm(text, URI_COMPONENT, 'upper')]),
      ...all.flatMap((text) => [...jsonForms(text), ...percentForms(text)]),
    ]),
    wrapped: distinct([...pieces.flatMap((text) => base64Forms(utf8Encode(text))), ...all.flatMap(hexForms)]),
  };
}

function distinct(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)];
}

function jsonForm(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** As programs in other languages write it: ASCII alone, safe in HTML, `\/`; and as JSON in JSON. */
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

/** By UTF-16 units. */
function escaped(text: string, characters: RegExp): string {
  return text.replaceAll(characters, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** What stands for itself in a URL, by who writes it. */
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
  for (const byte of utf8Encode(text)) {
    const character = String.fromCharCode(byte);
    const code = byte.toString(16).padStart(2, '0');
    form += byte < 0x80 && kept.test(character) ? character : `%${digits === 'upper' ? code.toUpperCase() : code}`;
  }
  return form;
}

function hexForms(text: string): readonly string[] {
  const hex = Array.from(utf8Encode(text), (byte) => byte.toString(16).padStart(2, '0')).join('');
  return [hex, hex.toUpperCase()];
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/**
 * The value in the middle of a longer text, which begins it at any of the three places in a group: only the characters that
 * no neighbour changes. Beside these the end of a text, whose last character has no neighbour.
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

/** With zero bytes before it, and zero bits after it, without padding. */
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
