/**
 * Converts JSON values to values of the language: a whole number is an integer, any other number is a double. A double
 * loses the digits of 1.0 or 0.12345678901234567891, so they are stored next to it for texts.
 */
import { type ExactJson, PrintedNumber } from '../../units/exact-json.ts';
import { EXPRESSION_LIMITS } from './limits.ts';

/**
 * The printed digits of the doubles that an expression reads. Two texts mean that two printed numbers have the same
 * double.
 */
export type PrintedDoubles = Map<number, string | readonly [string, string]>;

/** A number that an expression cannot compute with. */
export class NotComputable extends Error {}

/** Thrown if the printed digits of a number are not known. */
export class LostDigits extends Error {}

/** @throws LostDigits */
export function writeDouble(value: number, doubles: PrintedDoubles): string {
  const printed = doubles.get(value) ?? String(value);
  if (typeof printed === 'string') return printed;
  throw new LostDigits(
    `the numbers ${printed[0]} and ${printed[1]} become the same number in a computation: read the value with a path only, such as \`stages.NAME.json.KEY\`, or print it as a string`,
  );
}

/** Converts a value for an expression that only selects: a number with a fraction stays a `PrintedNumber`. */
export function toSelectable(value: ExactJson): unknown {
  if (value instanceof PrintedNumber) return value;
  if (Array.isArray(value)) return value.map(toSelectable);
  if (value instanceof Map) return new Map([...value].map(([key, each]) => [key, toSelectable(each)]));
  return typeof value === 'number' && isWhole(value) ? BigInt(value) : value;
}

/**
 * Converts a value for an expression that computes.
 * @param doubles  gets the digits of each double
 * @throws NotComputable
 */
export function toComputable(value: ExactJson, doubles: PrintedDoubles): unknown {
  if (Array.isArray(value)) return value.map((each) => toComputable(each, doubles));
  if (value instanceof Map) return new Map([...value].map(([key, each]) => [key, toComputable(each, doubles)]));
  if (value instanceof PrintedNumber) return numberOf(value, doubles);
  if (typeof value !== 'number') return value;
  return isWhole(value) ? BigInt(value) : keepDigits(value, String(value), doubles);
}

/** From 1e21, JavaScript writes a number with an exponent, so its text has no digits of a whole number. */
function isWhole(value: number): boolean {
  return Number.isInteger(value) && Math.abs(value) < 1e21;
}

function numberOf({ text, isWhole: whole }: PrintedNumber, doubles: PrintedDoubles): bigint | number {
  if (whole && text !== '-0') {
    // Parsing digits takes more than linear time.
    if (text.length <= EXPRESSION_LIMITS.digits) return BigInt(text);
    throw new NotComputable(
      `the number ${text.slice(0, 20)}…, which has ${text.length} characters; an expression reads at most ${EXPRESSION_LIMITS.digits} of a whole number`,
    );
  }
  const value = Number(text);
  if (!Number.isFinite(value))
    throw new NotComputable(
      `the number ${text.slice(0, 80)}, which is larger than the largest number of an expression`,
    );
  return keepDigits(value, text, doubles);
}

function keepDigits(value: number, text: string, doubles: PrintedDoubles): number {
  const known = doubles.get(value);
  if (known === undefined) doubles.set(value, text);
  else if (typeof known === 'string' && known !== text) doubles.set(value, [known, text]);
  return value;
}
