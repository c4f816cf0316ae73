/** Splits names of files in git's output with `-z`: bytes, which need not be text. */
import type { Buffer } from 'node:buffer';

export function namesIn(list: Buffer): readonly Buffer[] {
  const names: Buffer[] = [];
  for (let from = 0, end = list.indexOf(0); end !== -1; from = end + 1, end = list.indexOf(0, from))
    names.push(list.subarray(from, end));
  return names;
}
