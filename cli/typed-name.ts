/** The name with which a user starts the program: `npx` and its name in a checkout or a folder with the installed package; `npx` and the path of the package in other folders. */
export type TypedName = 'voidbox' | `npx ${string}`;

/**
 * Our own advice with its commands as they can be typed. Not for text that is anybody else's.
 * @param commands  the names that are commands: `voidbox` before any other word is prose
 */
export function withTypedCommands(text: string, name: TypedName, commands: readonly string[]): string {
  if (name === 'voidbox') return text;
  const typed = new RegExp(`(?<!npx )(?<![\\w/.-])voidbox (?=(?:${commands.join('|')})\\b)`, 'g');
  return text.replace(typed, () => `${name} `);
}
