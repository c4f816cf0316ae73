import { InvalidArgumentError } from 'commander';

/** How an option reads a number from 1 with at most so many digits. */
export function countOf(digits: number): (text: string) => number {
  return (text) => {
    if (!/^[1-9]\d*$/.test(text) || text.length > digits)
      throw new InvalidArgumentError('It must be a whole number from 1.');
    return Number(text);
  };
}
