import { COMMANDS } from './command-table.ts';

/** How the program is typed: a checkout, and a package that is installed in a folder, have it behind npx. */
export type TypedName = 'voidbox' | 'npx voidbox';

const TYPED = new RegExp(`(?<!npx )(?<![\\w/.-])voidbox (?=(?:${COMMANDS.map(({ name }) => name).join('|')})\\b)`, 'g');

/** Our own advice with its commands as they can be typed. Not for text that is anybody else's. */
export function asTyped(text: string, name: TypedName): string {
  return name === 'voidbox' ? text : text.replace(TYPED, `${name} `);
}
