import { utf8Encode } from '../units/utf8.ts';
import { sanitizeLine } from './sanitize.ts';

/** A text in a command line that is to be typed: quoted where a shell would read something else. */
export function quoteArgument(text: string): string {
  if (/^(?!-)[A-Za-z0-9._:@%+=,/-]+$/.test(text)) return text;
  return sanitizeLine(text) === text ? `'${text.replaceAll("'", `'\\''`)}'` : bashString(text);
}

/** What a terminal would act on, as bash and zsh write it. */
function bashString(text: string): string {
  const escaped = Array.from(utf8Encode(text), (byte) =>
    byte >= 0x20 && byte < 0x7f && byte !== 0x27 && byte !== 0x5c
      ? String.fromCharCode(byte)
      : `\\x${byte.toString(16).padStart(2, '0')}`,
  );
  return `$'${escaped.join('')}'`;
}
