/** Lines that a program overwrites with a carriage return, such as a progress bar. */

/**
 * Returns the state of a line that a terminal shows if `\r` overwrites the line: the last state that has a character.
 */
export function readLastState(text: string): string {
  if (!text.includes('\r')) return text;
  return text.split('\r').findLast((piece) => piece !== '') ?? '';
}

/** Returns the text with each line in its last state. */
export function readLastStates(text: string): string {
  return text.includes('\r') ? text.split('\n').map(readLastState).join('\n') : text;
}
