/** Makes and compares signatures. Every comparison takes the same time for each wrong signature. */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { HmacScheme } from '../../domain/delivery/trigger.ts';

/** The most signatures of one header that are compared. Senders write two while they rotate a secret. */
export const MOST_SIGNATURES = 8;

const DIGEST_BYTES: Readonly<Record<HmacScheme['algorithm'], number>> = { sha1: 20, sha256: 32, sha512: 64 };

export function computeHmac(
  algorithm: HmacScheme['algorithm'],
  key: string | Uint8Array,
  ...pieces: readonly (string | Uint8Array)[]
): Buffer {
  const hmac = createHmac(algorithm, key);
  for (const piece of pieces) hmac.update(piece);
  return hmac.digest();
}

/**
 * Reads a signature, in upper or lower case if it is hexadecimal.
 * @returns null for a text with another form or length
 */
export function readSignature(
  text: string,
  encoding: HmacScheme['encoding'],
  algorithm: HmacScheme['algorithm'],
): Buffer | null {
  const bytes = Buffer.from(text, encoding);
  // `Buffer.from` skips what it cannot read.
  const isWhole = bytes.toString(encoding) === (encoding === 'hex' ? text.toLowerCase() : text);
  return isWhole && bytes.length === DIGEST_BYTES[algorithm] ? bytes : null;
}

/** Whether one of the given signatures is one of the right ones. All pairs are compared. */
export function hasRightSignature(given: readonly Uint8Array[], right: readonly Uint8Array[]): boolean {
  const pairs = given.flatMap((one) =>
    right.map((other) => one.length === other.length && timingSafeEqual(one, other)),
  );
  return pairs.includes(true);
}

/** Compares texts of any length, whose lengths stay secret. */
export function compareSecretly(one: Uint8Array, other: Uint8Array): boolean {
  return timingSafeEqual(hash(one), hash(other));
}

function hash(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest();
}

/** An empty secret would let everybody make the proof. */
export function dropEmptySecrets(secrets: readonly string[]): readonly string[] {
  return secrets.filter((secret) => secret !== '');
}
