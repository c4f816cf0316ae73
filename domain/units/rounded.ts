/** Numbers in the form of JSON. */
export const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Whether a number may differ from the number that was written: a whole number beyond 2^53, or infinity. */
export function isRounded(value: number): boolean {
  return !Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value));
}

/**
 * Whether reading the text as a number changes its value. `1.0` and `1e3` keep their values; 9007199254740993 and
 * 0.12345678901234567891 do not.
 * @param text  a number in digits, with or without a fraction or exponent
 */
export function losesValue(text: string): boolean {
  const value = Number(text);
  return isRounded(value) || decimalOf(text) !== decimalOf(String(value));
}

/**
 * Returns the same text for all forms of one decimal number: significant digits, and the power of ten of the last one.
 */
function decimalOf(text: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return '0';
  const power = Number(exponent) - fraction.length + (digits.length - significant.length);
  return `${sign === '-' ? '-' : ''}${significant}e${power}`;
}
