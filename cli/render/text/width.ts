/* eslint-disable no-control-regex -- our own colour codes are the subject */
const COLOUR = /\u001b\[[0-9;]*m/g;
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const COMBINING = /\p{Mark}|[\u{200b}-\u{200d}]|[\u{fe00}-\u{fe0f}]/u;

/** Returns the columns that text takes on a terminal; our colour codes take no columns. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const character of text.replace(COLOUR, '')) width += characterWidth(character);
  return width;
}

/** Cuts text to at most `columns` and marks the cut with `…`; colour codes are kept and take no columns. */
export function truncate(text: string, columns: number): string {
  if (displayWidth(text) <= columns) return text;
  if (columns <= 0) return '';
  let result = '';
  let used = 0;
  let cut = false;
  for (const part of text.split(/(\u001b\[[0-9;]*m)/)) {
    if (part.startsWith('\u001b[')) {
      result += part;
      continue;
    }
    if (cut) continue;
    for (const character of part) {
      const width = characterWidth(character);
      if (used + width > columns - 1) {
        result += '…';
        cut = true;
        break;
      }
      result += character;
      used += width;
    }
  }
  return result;
}

/** Keeps the end of a text without colours, with `…` where its beginning was cut. */
export function truncateStart(text: string, columns: number): string {
  if (displayWidth(text) <= columns) return text;
  if (columns <= 0) return '';
  const kept: string[] = [];
  let used = 1;
  for (const character of [...text].reverse()) {
    used += characterWidth(character);
    if (used > columns) break;
    kept.push(character);
  }
  return `…${kept.reverse().join('')}`;
}

export function padEnd(text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - displayWidth(text)));
}

function characterWidth(character: string): number {
  if (COMBINING.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}
