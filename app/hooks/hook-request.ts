/** A request of a webhook as it arrived: its proof is checked over these bytes, before anything is parsed. */

export interface HookRequest {
  /** Every value of each header, in the order of arrival, by names in lower case. Characters are bytes (Latin-1). */
  readonly headers: HookHeaders;
  readonly body: Uint8Array;
  /** The time of arrival. */
  readonly nowMs: number;
}

export type HookHeaders = ReadonlyMap<string, readonly string[]>;

/**
 * Why a request proves no sender. The answer does not say which one it is.
 * - `missing`: a header of the proof is absent
 * - `repeated`: a header of the proof is there twice, so a proxy could have read the other one
 * - `malformed`: a header of the proof has another form
 * - `too-old`, `too-new`: its time is more than 5 minutes away
 * - `wrong`: no secret of the trigger makes this proof
 * - `no-secret`: the trigger's secret is absent, empty or has another form, so no request can have a proof
 */
export type HookRefusal = 'missing' | 'repeated' | 'malformed' | 'too-old' | 'too-new' | 'wrong' | 'no-secret';

/** One way in which senders prove their requests. */
export interface HookScheme {
  /** @returns why the request proves no sender; null: it does */
  verify(request: HookRequest, secrets: HookSecrets): HookRefusal | null;
  /** Returns the id that the sender gave its delivery; null: none. Only for a verified request. */
  findSenderId(request: HookRequest): string | null;
  /** Makes the headers with which the sender would send the event; null: the secret has another form. */
  sign(event: SignedEvent, secret: string): Readonly<Record<string, string>> | null;
}

/** The secret of a trigger, and the one before its last rotation. */
export type HookSecrets = readonly string[];

export interface SignedEvent {
  readonly body: Uint8Array;
  readonly nowMs: number;
  /** The id of the delivery, which schemes without such a header leave out. */
  readonly id: string;
}

/** The difference between the time of a request and this machine's that a proof may have, both ways. */
export const REPLAY_WINDOW_MS = 5 * 60_000;

/** The most characters of a sender's id. */
const ID_CHARACTERS = 256;
const ID = /^[\x21-\x7e]+$/;

/** @returns null if the header is absent or repeated */
export function readOnce(headers: HookHeaders, name: string): string | null {
  const values = headers.get(name) ?? [];
  return values.length === 1 ? values[0]! : null;
}

/** Returns why a header of the proof cannot be read; null: it is there once. */
export function findHeaderRefusal(headers: HookHeaders, names: readonly string[]): 'missing' | 'repeated' | null {
  const counts = names.map((name) => headers.get(name)?.length ?? 0);
  if (counts.some((count) => count > 1)) return 'repeated';
  return counts.includes(0) ? 'missing' : null;
}

/** @param time  in seconds since 1970, as the sender wrote it */
export function findTimeRefusal(time: string, nowMs: number): 'malformed' | 'too-old' | 'too-new' | null {
  if (!/^\d{1,12}$/.test(time)) return 'malformed';
  const ageMs = nowMs - Number(time) * 1_000;
  if (ageMs > REPLAY_WINDOW_MS) return 'too-old';
  return ageMs < -REPLAY_WINDOW_MS ? 'too-new' : null;
}

/** Returns an id of a sender; null for another text. */
export function readSenderId(text: unknown): string | null {
  return typeof text === 'string' && text.length <= ID_CHARACTERS && ID.test(text) ? text : null;
}

/** Reads a text at the top of a body of JSON; null: it has no such text. */
export function readBodyText(body: Uint8Array, key: string): string | null {
  try {
    const value: unknown = JSON.parse(Buffer.from(body).toString());
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return null;
    const text = (value as Readonly<Record<string, unknown>>)[key];
    return typeof text === 'string' ? text : null;
  } catch {
    return null;
  }
}
