/** JSON, forms and text, in UTF-8. */
const TYPE = /^(application\/(?:json|[a-z0-9.!#$&^_-]+\+json|x-www-form-urlencoded)|text\/plain)$/;
const UTF_8 = /^charset\s*=\s*"?utf-8"?$/;

/**
 * Reads the type of a payload.
 * @param header  `Content-Type`; null: absent
 * @returns the type in lower case and without parameters; null: no trigger can read such a payload
 */
export function readContentType(header: string | null): string | null {
  const [type = '', ...parameters] = (header ?? '')
    .toLowerCase()
    .split(';')
    .map((part) => part.trim());
  const charset = parameters.filter((parameter) => parameter.startsWith('charset'));
  return TYPE.test(type) && charset.every((parameter) => UTF_8.test(parameter)) ? type : null;
}
