/** Why a text is not JSON, for messages: the place, the beginning of the text, and the usual cause. */
import { REDACTED } from './redactor.ts';
import { sanitizeLine } from './sanitize.ts';
import { type NotJsonBecause, readExactJson } from '../units/exact-json.ts';

/** Characters of the text in a message. */
const BEGINNING = 40;

/** Describes how redaction changed a text. @param variables  their names */
export function describeRedacted(variables: readonly string[]): string {
  const values = variables.length === 1 ? 'the value' : 'values';
  return `Voidbox replaced ${values} of ${variables.join(', ')} with ${REDACTED}`;
}

/**
 * `is not JSON: there is something else at line 2, column 1; it begins with "…": print one JSON list, …`.
 * @param text  what `readExactJson` refused
 * @param because  its answer
 * @param isShown  false: the text may hold secrets, and the message does not show its beginning
 * @param variables  names of the host variables whose values are redacted in the text, if that is known
 */
export function describeNotJson(
  text: string,
  { problem, at, isTooDeep }: NotJsonBecause,
  isShown = true,
  variables: readonly string[] = [],
): string {
  if (isTooDeep) return `cannot be read as JSON: ${problem}`;
  const hint = hintFor(text, at, variables);
  const place =
    text.trim() === ''
      ? 'it is empty'
      : at >= text.trimEnd().length
        ? 'it ends too early'
        : `there is something else at ${placeOf(text, at)}`;
  const beginning = isShown && text.trim() !== '' ? `; it begins with ${beginningOf(text)}` : '';
  return `is not JSON: ${place}${beginning}${hint === null ? '' : `. ${hint}`}`;
}

function beginningOf(text: string): string {
  const start = text.slice(0, BEGINNING);
  return `${JSON.stringify(sanitizeLine(start.replace(/^\uFEFF/, '<byte order mark>').replaceAll(/\s+/g, ' ')))}${text.length > BEGINNING ? '…' : ''}`;
}

function placeOf(text: string, at: number): string {
  const before = text.slice(0, at);
  const line = before.split('\n').length;
  return `line ${line}, column ${at - before.lastIndexOf('\n')}`;
}

function hintFor(text: string, at: number, variables: readonly string[]): string | null {
  if (variables.length > 0) return `${describeRedacted(variables)}: print such a value within a string`;
  // A reader of JSON takes the mark for a list, and stops after its bracket.
  if (text.startsWith(REDACTED, at - 1))
    return 'The value of a host variable was redacted there: print such a value within a string';
  if (text.startsWith('\uFEFF')) return 'It has a byte order mark: print it without one';
  if (/^\s*(```|~~~)/.test(text)) return 'It is in a Markdown code fence: print the JSON without the fence';
  const lines = text.slice(0, at).trimEnd();
  if (at > 0 && /^\s*[[{"\d]/.test(text.slice(at)) && lines !== '' && 'value' in readExactJson(lines))
    return 'It has several JSON values, such as one on each line: print one JSON list of them, for example with `jq -s .`';
  return null;
}
