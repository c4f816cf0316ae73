/** The name with which a user starts the program: `npx` and its name in a checkout or a folder with the installed package; `npx` and the path of the package in other folders. */
export type TypedName = 'voidbox' | `npx ${string}`;

/**
 * Replaces `voidbox` in our own advice by the name that the user types. It must not be used for text from other
 * sources.
 * @param commands  the names that are commands: `voidbox` before any other word except `--help` is prose
 */
export function withTypedCommands(text: string, name: TypedName, commands: readonly string[]): string {
  if (name === 'voidbox') return text;
  const typed = new RegExp(`(?<!npx )(?<![\\w/.-])voidbox (?=(?:--help|${commands.join('|')})\\b)`, 'g');
  return text.replace(typed, () => `${name} `);
}
