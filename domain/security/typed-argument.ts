import { encodeUtf8 } from '../units/utf8.ts';
import { sanitizeLine } from './sanitize.ts';

/** An argument in a command line that a person types: quoted if a shell would read it differently. */
export function quoteArgument(text: string): string {
  if (/^(?!-)[A-Za-z0-9._:@%+=,/-]+$/.test(text)) return text;
  return sanitizeLine(text) === text ? `'${text.replaceAll("'", `'\\''`)}'` : bashString(text);
}

/** Writes the bytes that a terminal would act on as escapes of bash and zsh. */
function bashString(text: string): string {
  const escaped = Array.from(encodeUtf8(text), (byte) =>
    byte >= 0x20 && byte < 0x7f && byte !== 0x27 && byte !== 0x5c
      ? String.fromCharCode(byte)
      : `\\x${byte.toString(16).padStart(2, '0')}`,
  );
  return `$'${escaped.join('')}'`;
}
