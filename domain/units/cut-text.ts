/**
 * Texts of hosts, keepers, servers and users in events, failures and errors: bounded, because nothing else bounds them.
 */

/** Characters of a text for people. */
export const TEXT_CHARACTERS = 16 * 1024;

/** Cuts a text to `TEXT_CHARACTERS`; a note at its end counts the characters left out. */
export function cutText(text: string): string {
  if (text.length <= TEXT_CHARACTERS) return text;
  const note = `… (${text.length - TEXT_CHARACTERS} characters more)`;
  return `${text.slice(0, TEXT_CHARACTERS - note.length)}${note}`;
}
