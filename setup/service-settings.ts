/** Reads which service on another machine the command line uses. */
import { readFileSync } from 'node:fs';
import { parseServicePlace, type ServiceSettings } from '../domain/access/service-settings.ts';
import { SetupError } from './setup-error.ts';

/** A token is at most this long, also one of a later version. */
const MOST_TOKEN_CHARACTERS = 1_000;

/**
 * @param read  returns the value of a variable; null if it is unset
 * @returns null without `VOIDBOX_SERVER`
 * @throws SetupError, which never contains the token
 */
export function readServiceSettings(read: (name: string) => string | null): ServiceSettings | null {
  const name = read('VOIDBOX_SERVER');
  if (name === null) return null;
  const place = parseServicePlace(name);
  if ('problem' in place)
    throw new SetupError(
      // The text may contain a password.
      `VOIDBOX_SERVER ${place.problem}.`,
      'Set it to https://HOST:PORT, or to unix: and the path of a socket, or unset it.',
    );
  const token = read('VOIDBOX_TOKEN')?.trim() ?? null;
  if (token !== null && !isTokenText(token))
    throw new SetupError(
      'VOIDBOX_TOKEN is not the text of a token.',
      'Set it to the line that `voidbox token create` printed.',
    );
  const path = read('VOIDBOX_SERVER_CA');
  const remedy = 'Set it to a file with certificates in PEM, or unset it.';
  return { name, place, token, ca: path === null ? null : readCertificates(path, 'VOIDBOX_SERVER_CA', remedy) };
}

export function isTokenText(text: string): boolean {
  return text.length <= MOST_TOKEN_CHARACTERS && /^[\x21-\x7e]+$/.test(text);
}

export function hasCertificate(text: string): boolean {
  return text.includes('-----BEGIN CERTIFICATE-----');
}

/**
 * @param option  the variable or option that names the file
 * @throws SetupError
 */
export function readCertificates(path: string, option: string, remedy: string): string {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new SetupError(`${option} cannot be read: ${(error as Error).message}.`, remedy);
  }
  if (!hasCertificate(text)) throw new SetupError(`${option} names ${path}, which has no certificate.`, remedy);
  return text;
}
