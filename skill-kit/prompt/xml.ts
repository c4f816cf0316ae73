/**
 * Escapes text for a prompt. Tags in prompts mark the source of each text. Texts come from stores, agents and files,
 * and no text may close its own tag or open another of ours. The rest of a text stays unchanged, because agents copy
 * code and markup out of prompts: `a < b` must not become `a &lt; b` in a source file.
 */

/** All tags that prompts are made of. */
const TAGS = [
  'system',
  'prompt',
  'rendered',
  'ask-user',
  'option',
  'preview',
  'confirm',
  'plan',
  'step',
  'checklist',
  'item',
  'subagent',
  'survey',
  'question',
];
/** Also as a tired reader would still take it: other case, blanks, a slash on the wrong side. */
const TAG_LIKE = new RegExp(String.raw`<(?=[\s/]*(?:${TAGS.join('|')})(?![\w-]))`, 'gi');

/** Text between tags. @throws {TypeError} for what only the types of its author's code take for a text */
export function escapeText(text: string): string {
  if (typeof text !== 'string') throw new TypeError(`a text in it is ${text === null ? 'null' : typeof text}`);
  return text.replace(TAG_LIKE, '&lt;');
}

const IN_ATTRIBUTES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  '\n': '&#10;',
  '\r': '&#13;',
  '\t': '&#9;',
};

/** Text between the quotes of an attribute. */
export function escapeAttribute(text: string): string {
  return text.replace(/[&<>"\n\r\t]/g, (character) => IN_ATTRIBUTES[character] ?? character);
}

/**
 * Attributes in the order given, each with a blank before it; those that are undefined or false are left out.
 * @example attributes({ header: 'H', 'multi-select': true }) // ' header="H" multi-select="true"'
 */
export function attributes(values: Readonly<Record<string, string | boolean | undefined>>): string {
  return Object.entries(values)
    .filter(([, value]) => value !== undefined && value !== false)
    .map(([name, value]) => ` ${name}="${escapeAttribute(String(value))}"`)
    .join('');
}
