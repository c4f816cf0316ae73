/** The answer to an approval: the output of its stage, and the fields that the answer may have. */
import type { ApprovalField } from '../plan/plan.ts';
import { sanitizeLine } from '../security/sanitize.ts';
import { isRounded, JSON_NUMBER, losesValue } from '../units/rounded.ts';
import { countUtf8Bytes } from '../units/utf8.ts';
import { createMapping } from '../units/mapping.ts';
import { quote } from '../units/quote.ts';

export type FieldValue = string | number | boolean;
export type FieldValues = Readonly<Record<string, FieldValue>>;

/** The output of an approval that was granted, as JSON. */
export interface ApprovalAnswer {
  readonly approved: true;
  /** The name that the answering person gave; null: the person gave no name. */
  readonly by: string | null;
  /** Whether a token or a link proved who sent the answer; else `by` is a claim. */
  readonly verified: boolean;
  readonly comment: string | null;
  readonly fields: FieldValues;
  /** ISO 8601. */
  readonly at: string;
  readonly timedOut: boolean;
}

/** Names the person or token behind an answer, as ` by ada (verified)`; empty if there is no name. */
export function nameAnswerer({
  by,
  verified,
}: {
  readonly by?: string | null | undefined;
  readonly verified?: boolean | undefined;
}): string {
  if (by === undefined || by === null) return '';
  return ` by ${sanitizeLine(by)}${verified === true ? ' (verified)' : ''}`;
}

export const ANSWER_LIMITS = {
  /** UTF-16 code units of a comment, and of the name of the answering person. */
  commentCharacters: 2_048,
  byCharacters: 256,
  /** Bytes of the fields as JSON. */
  fieldBytes: 64 * 1024,
} as const;

/**
 * Checks the fields of an answer. A number or a flag may be text, because a command line sends text.
 * @returns the values by name, or their problem
 */
export function checkFields(
  fields: readonly ApprovalField[],
  given: unknown,
): { readonly values: FieldValues } | { readonly problem: string } {
  if (given !== undefined && given !== null && (typeof given !== 'object' || Array.isArray(given)))
    return { problem: '`fields` of an answer must be an object' };
  const values = new Map<string, unknown>(Object.entries(given ?? {}));
  if (countUtf8Bytes(JSON.stringify(given ?? {})) > ANSWER_LIMITS.fieldBytes)
    return { problem: `the fields of an answer have more than ${ANSWER_LIMITS.fieldBytes} bytes of JSON` };
  const names = fields.map(({ name }) => name);
  const stranger = [...values.keys()].find((name) => !names.includes(name));
  if (stranger !== undefined)
    return {
      problem: `the approval has no field ${quote(stranger)}; ${names.length === 0 ? 'it has no fields' : `its fields: ${names.join(', ')}`}`,
    };
  const checked: [string, FieldValue][] = [];
  for (const field of fields) {
    const value = values.get(field.name);
    if (value === undefined) {
      if (field.required) return { problem: `the approval needs the field ${field.name} (${describeField(field)})` };
      continue;
    }
    const typed = parseFieldValue(field, value);
    if (typed === null)
      return { problem: `the field ${field.name} must be ${describeField(field)}, got ${quote(value)}` };
    const changed = typeof typed === 'number' ? changeOf(typed, value) : null;
    if (changed !== null) return { problem: `the field ${field.name} is ${quote(value)}, ${changed}` };
    checked.push([field.name, typed]);
  }
  return { values: createMapping(checked) };
}

/**
 * Like `checkFields`, for an answer that may omit any field: a rejection, or the answer of a deadline, which fills in
 * no form.
 */
export function checkGivenFields(fields: readonly ApprovalField[], given: unknown): ReturnType<typeof checkFields> {
  return checkFields(
    fields.map((field) => ({ ...field, required: false })),
    given,
  );
}

/** Describes the values that a field accepts, for people. */
export function describeField({ type, choices }: ApprovalField): string {
  switch (type) {
    case 'text':
      return 'text';
    case 'number':
      return 'a number';
    case 'boolean':
      return 'true or false';
    case 'choice':
      return `one of: ${choices.join(', ')}`;
  }
}

function parseFieldValue({ type, choices }: ApprovalField, value: unknown): FieldValue | null {
  switch (type) {
    case 'text':
      return typeof value === 'string' ? value : null;
    case 'number': {
      const number = typeof value === 'string' && JSON_NUMBER.test(value) ? Number(value) : value;
      return typeof number === 'number' && !Number.isNaN(number) ? number : null;
    }
    case 'boolean':
      if (value === 'true' || value === 'false') return value === 'true';
      return typeof value === 'boolean' ? value : null;
    case 'choice':
      return typeof value === 'string' && choices.includes(value) ? value : null;
  }
}

/**
 * Describes the change that a record would make to a number; null: no change. The client's converter has already read
 * the number from JSON.
 */
function changeOf(number: number, given: unknown): string | null {
  if (isRounded(number) || (typeof given === 'string' && losesValue(given)))
    return 'which has no exact value: use a number within ±9007199254740991 of at most 15 digits';
  return typeof given === 'string' && given !== String(number) ? `which would become ${number}: write ${number}` : null;
}
