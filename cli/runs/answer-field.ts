import { createUsageError } from '../../app/app-error.ts';
import { quote, shorten } from '../../domain/units/quote.ts';

/** Adds a `--field NAME=VALUE` of `approve` and `reject` to the previous ones. @throws AppError */
export function addField(
  text: string,
  fields: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const at = text.indexOf('=');
  if (at < 1) throw createUsageError(`--field must be NAME=VALUE, got ${quote(text)}`, 'Write --field NAME=VALUE.');
  const name = text.slice(0, at);
  if (Object.hasOwn(fields, name))
    throw createUsageError(`--field ${shorten(name)} appears twice`, 'Set each field once.');
  return { ...fields, [name]: text.slice(at + 1) };
}
