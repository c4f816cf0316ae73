/** Ids of deliveries: 26 characters that sort by the time of acceptance, in the form of a ULID in lower case. */

/** Crockford's base 32, in the order of its bytes. */
const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz';
const TIME_DIGITS = 10;
const RANDOM_DIGITS = 16;
/** 80 bits. */
export const DELIVERY_ID_RANDOM_BYTES = 10;

const FORM = /^[0-7][0-9a-hjkmnp-tv-z]{25}$/;

export function isDeliveryId(text: string): boolean {
  return FORM.test(text);
}

/** The last id that was made: its time and its 80 random bits. */
export interface LastDeliveryId {
  readonly timeMs: number;
  readonly random: bigint;
}

/**
 * Makes the part of an id that follows the last one: also within one millisecond, and if the clock goes back.
 * @param random  80 random bits
 */
export function followDeliveryId(last: LastDeliveryId | null, nowMs: number, random: bigint): LastDeliveryId {
  if (last === null || nowMs > last.timeMs) return { timeMs: nowMs, random };
  // A step of 40 random bits: others cannot guess the id, and 2 ** 39 steps fit in one millisecond.
  const next = last.random + (random >> 40n) + 1n;
  return next < 1n << 80n ? { timeMs: last.timeMs, random: next } : { timeMs: last.timeMs + 1, random };
}

export function formatDeliveryId({ timeMs, random }: LastDeliveryId): string {
  return `${encode(BigInt(timeMs), TIME_DIGITS)}${encode(random, RANDOM_DIGITS)}`;
}

function encode(value: bigint, digits: number): string {
  const places = Array.from({ length: digits }, (_, at) => BigInt(5 * (digits - 1 - at)));
  return places.map((bits) => DIGITS[Number((value >> bits) & 31n)]).join('');
}
