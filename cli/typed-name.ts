/** How the program is typed: a checkout, and a package that is installed in a folder, have it behind npx; in any other folder npx takes the path of the package. */
export type TypedName = 'voidbox' | `npx ${string}`;

/**
 * Our own advice with its commands as they can be typed. Not for text that is anybody else's.
 * @param commands  the names that are commands: `voidbox` before any other word is prose
 */
export function asTyped(text: string, name: TypedName, commands: readonly string[]): string {
  if (name === 'voidbox') return text;
  const typed = new RegExp(`(?<!npx )(?<![\\w/.-])voidbox (?=(?:${commands.join('|')})\\b)`, 'g');
  return text.replace(typed, () => `${name} `);
}
