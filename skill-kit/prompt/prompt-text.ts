/** Texts in templates: written indented as the code around them, given to agents without the indentation. */

/** A named piece of prose to use in several prompts. */
export interface Fragment {
  readonly name: string;
  readonly content: string;
}

/** @throws {Error} without a name */
export function fragment(name: string, content: string): Fragment {
  if (!name) throw new Error('fragment: name is required. Give it as the first argument: fragment("tone", "...").');
  return Object.freeze({ name, content: content.trim() });
}

/** A template whose text loses its common indentation; fragments stand for their content. */
export function prompt(strings: TemplateStringsArray, ...values: unknown[]): string {
  return resolveTemplate(strings, ...values);
}

/**
 * Joins a template literal, drops blank lines at both ends and the indentation that all lines of the template share. Values
 * do not count for that: what they hold may begin in any column. Further lines of a value that begins its line are put
 * below its first.
 */
export function resolveTemplate(strings: TemplateStringsArray, ...values: unknown[]): string {
  const indentation = commonIndentation(strings);
  let text = '';
  strings.forEach((part, index) => {
    const startsLine = index === 0;
    text += dedent(part, indentation, startsLine);
    if (index < values.length) text += alignBelow(textOf(values[index]), text);
  });
  return text.replace(/^(?:[ \t]*\r?\n)+/, '').trimEnd();
}

/** Counts blanks before the text of the template's own lines; a blank line counts only if a value follows on it. */
function commonIndentation(strings: TemplateStringsArray): number {
  let least = Infinity;
  strings.forEach((part, index) => {
    const lines = part.split('\n');
    lines.forEach((line, lineIndex) => {
      if (index > 0 && lineIndex === 0) return;
      const blanks = /^[ \t]*/.exec(line)?.[0].length ?? 0;
      const valueFollows = lineIndex === lines.length - 1 && index < strings.length - 1;
      // Text on the line of the opening backtick has no indentation.
      const opening = index === 0 && lineIndex === 0;
      if (opening ? blanks < line.length || valueFollows : blanks < line.trimEnd().length || valueFollows)
        least = Math.min(least, blanks);
    });
  });
  return Number.isFinite(least) ? least : 0;
}

function dedent(part: string, indentation: number, startsLine: boolean): string {
  return part
    .split('\n')
    .map((line, index) =>
      index > 0 || startsLine ? line.replace(/^[ \t]*/, (blanks) => blanks.slice(indentation)) : line,
    )
    .join('\n');
}

function alignBelow(value: string, before: string): string {
  const line = before.slice(before.lastIndexOf('\n') + 1);
  return line !== '' && line.trim() === '' ? value.replaceAll('\n', `\n${line}`) : value;
}

function textOf(value: unknown): string {
  return isFragment(value) ? value.content : String(value);
}

function isFragment(value: unknown): value is Fragment {
  return (
    typeof value === 'object' &&
    value !== null &&
    'content' in value &&
    typeof value.content === 'string' &&
    'name' in value
  );
}
