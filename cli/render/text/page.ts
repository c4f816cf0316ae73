/** A page of the documentation for a terminal. */
import { posix } from 'node:path';
import { displayWidth } from './width.ts';
import type { Style } from './style.ts';

/** Longer lines are hard to read, whatever the terminal has. */
const MOST_COLUMNS = 96;

/**
 * Renders Markdown as the pages of `docs/` use it. Code and tables keep their lines, paragraphs are wrapped, comments are left
 * out, and a link to a page becomes the path of that page.
 * @param folder  the folder of the page, relative to the package, such as `docs/guides`
 * @param columns  of the terminal; null: there is no terminal
 */
export function renderPage(markdown: string, folder: string, style: Style, columns: number | null): string {
  const width = Math.min(MOST_COLUMNS, columns ?? MOST_COLUMNS);
  const blocks = markdown
    .replace(/^ *<!--[^]*?-->\n/gm, '')
    .split(/^(```[^]*?^```)$/gm)
    .map((block) =>
      block.startsWith('```') ? renderCode(block, style) : renderText(showTargets(block, folder), style, width),
    );
  return `${blocks
    .join('')
    .replace(/\n{3,}/g, '\n\n')
    .trim()}\n`;
}

function renderCode(block: string, style: Style): string {
  const lines = block.split('\n').slice(1, -1);
  return lines.map((line) => (line === '' ? '' : `    ${style.cyan(line)}`)).join('\n');
}

function renderText(text: string, style: Style, width: number): string {
  return text
    .split('\n')
    .map((line) => {
      const heading = /^#+ (.+)$/.exec(line)?.[1];
      if (heading !== undefined) return style.bold(heading);
      if (line.startsWith('|')) return line;
      const indent = /^(?:[-*]|\d+\.) /.exec(line)?.[0].length ?? 0;
      return wrap(line.replace(/\*\*([^*]+)\*\*/g, '$1'), width, indent);
    })
    .join('\n');
}

function showTargets(text: string, folder: string): string {
  return text.replace(/\[([^\]]+)\]\(([^)\s]+)\)/g, (_link, label: string, target: string) => {
    if (/^[a-z]+:/.test(target)) return `${label} (${target})`;
    return target.startsWith('#') ? label : `${label} (${posix.join(folder, target)})`;
  });
}

/** Continued lines are indented by so many columns. */
function wrap(line: string, width: number, indent: number): string {
  const lines: string[] = [];
  let open = '';
  for (const word of line.split(' ')) {
    const longer = open === '' ? word : `${open} ${word}`;
    if (open !== '' && displayWidth(longer) > width) {
      lines.push(open);
      open = `${' '.repeat(indent)}${word}`;
    } else open = longer;
  }
  return [...lines, open].join('\n');
}
