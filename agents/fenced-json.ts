/** JSON that a model wraps into a code block of Markdown, though it was asked for JSON only. */
import { isJson } from '../domain/units/is-json.ts';

/** A fence of at least three backticks or tildes, by CommonMark; `info` names a language, such as `json`. */
const OPENING = /^(?<fence>`{3,}|~{3,})(?<info>[^\n]*)$/;

/**
 * @returns the content of the fenced block, byte for byte, if the whole text is one block; null if there is other text or another
 *   block, or if the content is not JSON
 */
export function unfenceJson(text: string): string | null {
  const trimmed = text.trim();
  const firstBreak = trimmed.indexOf('\n');
  const lastBreak = trimmed.lastIndexOf('\n');
  if (firstBreak === -1 || lastBreak === firstBreak) return null;
  const opening = OPENING.exec(trimmed.slice(0, firstBreak).trimEnd())?.groups;
  if (opening === undefined) return null;
  const fence = opening['fence']!;
  // By CommonMark a line with another backtick is inline code.
  if (fence.startsWith('`') && opening['info']!.includes('`')) return null;
  const closing = trimmed.slice(lastBreak + 1).trim();
  if (closing.length < fence.length || closing !== fence[0]!.repeat(closing.length)) return null;
  // A fence inside the content is text within a JSON string or makes the content no JSON.
  const content = trimmed.slice(firstBreak + 1, lastBreak).trim();
  return isJson(content) ? content : null;
}
