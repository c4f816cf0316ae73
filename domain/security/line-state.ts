/** Lines that a program writes over with a carriage return, such as a bar of progress. */

/** Returns the state of a line that a terminal shows if `\r` overwrites the line: the last state that has a character. */
export function readLastState(text: string): string {
  if (!text.includes('\r')) return text;
  return text.split('\r').findLast((piece) => piece !== '') ?? '';
}

/** The same of each line of a text. */
export function readLastStates(text: string): string {
  return text.includes('\r') ? text.split('\n').map(readLastState).join('\n') : text;
}
