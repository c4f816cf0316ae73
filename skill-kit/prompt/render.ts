/** Data as text for prompts and views. */

type Row = Readonly<Record<string, unknown>>;

function textOf(value: unknown): string {
  const text = String(value);
  return value === undefined || value === null ? '' : text;
}

export interface TableOptions {
  /** Default: the keys of the first row. */
  readonly columns?: readonly string[];
  /** The text that replaces each value in the column `status`. */
  readonly statusIcons?: Readonly<Record<string, string>>;
}

export const render = Object.freeze({
  /** A markdown table; empty for no rows. */
  table(rows: readonly Row[], { columns, statusIcons }: TableOptions = {}): string {
    const [first] = rows;
    if (first === undefined) return '';
    const names = columns ?? Object.keys(first);
    const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
    const body = rows.map((row) =>
      line(
        names.map((name) => {
          const text = textOf(row[name]);
          const icon =
            name === 'status' && statusIcons !== undefined && Object.hasOwn(statusIcons, text)
              ? statusIcons[text]
              : undefined;
          return cell(icon ?? text);
        }),
      ),
    );
    return [line(names.map(cell)), line(names.map(() => '---')), ...body].join('\n');
  },

  checklist(items: readonly { readonly text: string; readonly done: boolean }[]): string {
    return items.map(({ text, done }) => `${done ? '✅' : '☐'} ${text}`).join('\n');
  },

  /** Compares line by line, by position. */
  diff(before: string, after: string): string {
    const [from, to] = [before.split('\n'), after.split('\n')];
    const lines = ['--- before', '+++ after'];
    for (let index = 0; index < Math.max(from.length, to.length); index += 1) {
      const [old, fresh] = [from[index], to[index]];
      if (old === fresh) lines.push(` ${old}`);
      else {
        if (old !== undefined) lines.push(`-${old}`);
        if (fresh !== undefined) lines.push(`+${fresh}`);
      }
    }
    return lines.join('\n');
  },

  /** A fenced block; the fence is longer than any in the source. */
  code(source: string, language = ''): string {
    const longest = Math.max(2, ...[...source.matchAll(/`{3,}/g)].map(([ticks]) => ticks.length));
    const fence = '`'.repeat(longest + 1);
    return `${fence}${language}\n${source}\n${fence}`;
  },

  /** Keys and values in two aligned columns. */
  kv(values: Row): string {
    const entries = Object.entries(values);
    const width = Math.max(0, ...entries.map(([key]) => key.length));
    return entries.map(([key, value]) => `${key.padEnd(width)}  ${String(value)}`).join('\n');
  },

  section(title: string, body: string): string {
    return `## ${title}\n\n${body}`;
  },
});

/** A cell is one line, and a bar in it would end it; backslashes before a bar would undo the escape. */
function cell(text: string): string {
  return text.replace(/(?<!\\)(\\*)\|/g, String.raw`$1$1\|`).replace(/\r?\n/g, '<br>');
}
