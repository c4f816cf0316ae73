/**
 * The text of a link to a question: its facts as base64url, a dot, and their HMAC. Each holder of the text may answer, so
 * logs and the audit log contain only a hash of it.
 */
import { createHash, createHmac, hkdfSync, type KeyObject, timingSafeEqual } from 'node:crypto';
import type { SecretKeys } from '../secrets/secret-keys.ts';

/** One question of a run, one name, and an end. */
export interface LinkFacts {
  readonly runId: string;
  /** The attempt that asks. */
  readonly execKey: string;
  /** The name that answers. */
  readonly as: string;
  readonly expiresAtMs: number;
}

/** The most characters of a link. */
export const MOST_LINK_CHARACTERS = 4_096;
const KEY_BYTES = 32;
const MAC_CHARACTERS = 43;
const FORM = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/;
/** Another use of the same key, and another form of the facts, has other bytes. */
const USE = 'voidbox approval link 1';
const SHOWN_CHARACTERS = 16;

/** The first key signs. */
export function signLink({ runId, execKey, as, expiresAtMs }: LinkFacts, { keys }: SecretKeys): string {
  const facts = Buffer.from(JSON.stringify([runId, execKey, as, expiresAtMs])).toString('base64url');
  return `${facts}.${computeMac(facts, keys[0]!.key).toString('base64url')}`;
}

/**
 * Returns the facts of a link that one of the keys signed.
 * @returns null for every other text, and for a link that has expired
 */
export function readLink(text: string, { keys }: SecretKeys, nowMs: number): LinkFacts | null {
  const [, facts, mac] = (text.length > MOST_LINK_CHARACTERS ? null : FORM.exec(text)) ?? [];
  if (facts === undefined || mac?.length !== MAC_CHARACTERS) return null;
  const given = Buffer.from(mac, 'base64url');
  // A text has one form only: its last characters may not differ in bits that no byte has.
  if (given.toString('base64url') !== mac) return null;
  if (!keys.some(({ key }) => timingSafeEqual(given, computeMac(facts, key)))) return null;
  // The service has made what it signed.
  const [runId, execKey, as, expiresAtMs] = JSON.parse(Buffer.from(facts, 'base64url').toString('utf8')) as [
    string,
    string,
    string,
    number,
  ];
  return expiresAtMs <= nowMs ? null : { runId, execKey, as, expiresAtMs };
}

/** Returns SHA-256 of a link: 32 bytes. */
export function hashLink(text: string): Uint8Array {
  return createHash('sha256').update(text).digest();
}

/** Names a link in logs and in the audit log, such as `link:1f3a9c0e77b2d410`. No token has such a name. */
export function nameLink(text: string): string {
  return `link:${Buffer.from(hashLink(text)).toString('hex').slice(0, SHOWN_CHARACTERS)}`;
}

function computeMac(facts: string, key: KeyObject): Buffer {
  const own = Buffer.from(hkdfSync('sha256', key, '', USE, KEY_BYTES));
  return createHmac('sha256', own).update(facts).digest();
}
