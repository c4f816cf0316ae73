/** Reads `run` as a text: returns its command, and the variables that hold its values. */
import { findPlaceholders } from '../grammar/placeholders.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { EnvSpec } from '../grammar/table.ts';
import { VARIABLE_LIMITS } from '../grammar/values.ts';
import type { Located } from '../text/tree.ts';
import { quote } from '../../units/quote.ts';
import { readShell, type ShellContext, type ShellReading } from './shell-contexts.ts';

/** A text that a shell reads. */
export interface Script {
  /** The text as it was written. */
  readonly text: Located<string>;
  /** Its values, one for each occurrence in the text. */
  readonly values: readonly ScriptValue[];
  readonly reading: ShellReading;
}

export interface ScriptValue {
  /** The placeholder, as it was written. */
  readonly written: string;
  readonly variable: string;
  readonly context: ShellContext;
}

export interface ReadScript {
  readonly program: Located<string>;
  readonly args: readonly Located<string>[];
  /** Variables that the text needs, in the order of the text. */
  readonly env: readonly EnvSpec[];
  readonly script: Script;
}

const VALUE_VARIABLE = 'VOIDBOX_VALUE_';

/** First lines of files that name a POSIX shell. */
const IS_SH = /^#![ \t]*(?:\/usr)?\/bin\/(?:env[ \t]+)?(?:sh|ash|dash)(?:\s|$)/;

/**
 * Returns the command `sh -e -c TEXT`. Each placeholder becomes a variable, so that no value is ever read as shell.
 * @param what  the name of the text in messages
 * @param taken  names of variables that the stage already has
 */
export function readScript(
  text: Located<string>,
  what: string,
  taken: ReadonlySet<string>,
  problems: Problems,
): ReadScript {
  refuseOtherInterpreter(text, what, problems);
  if (/\r(?:\n|$)/.test(text.value))
    problems.warning(
      'spec/bad-value',
      text.at,
      `${what} has lines that end with CR LF, as on Windows: a shell reads the carriage return as part of the last word`,
      'end the lines with LF, or write the text as a YAML block (`run: |`)',
    );
  const found = findPlaceholders(text.value);
  const reading = readShell(text.value, found);
  const variables = new Map<string, EnvSpec>();
  let next = 1;
  const values = found.map(({ start, end }, index): ScriptValue => {
    const written = text.value.slice(start, end);
    const key = written.replaceAll(/\s+/g, ' ');
    let variable = variables.get(key)?.name;
    if (variable === undefined) {
      while (taken.has(`${VALUE_VARIABLE}${next}`)) next += 1;
      variable = `${VALUE_VARIABLE}${next}`;
      next += 1;
      variables.set(key, { name: variable, at: text.at, value: placeValue(text, written, start) });
    }
    return { written, variable, context: reading.contexts[index]! };
  });
  if (variables.size > VARIABLE_LIMITS.count)
    problems.error(
      'spec/too-large',
      text.at,
      `${what} has ${variables.size} values; it can have at most ${VARIABLE_LIMITS.count}`,
      'write the values to a file in an earlier stage, and read the file',
    );
  let script = '';
  let done = 0;
  found.forEach(({ start, end }, index) => {
    script += text.value.slice(done, start) + referTo(values[index]!);
    done = end;
  });
  script += text.value.slice(done);
  return {
    program: { value: 'sh', at: text.at },
    args: [
      { value: '-e', at: text.at },
      { value: '-c', at: text.at },
      found.length === 0 ? text : { value: script, at: text.at },
    ],
    env: [...variables.values()].slice(0, VARIABLE_LIMITS.count),
    script: { text, values, reading },
  };
}

function placeValue({ at, textAt }: Located<string>, value: string, offset: number): Located<string> {
  if (textAt === undefined) return { value, at };
  return { value, at, textAt: { line: textAt.line, column: textAt.column + offset } };
}

/** Returns a reference that is one word, whatever the value is. */
function referTo({ variable, context }: ScriptValue): string {
  const reference = `\${${variable}}`;
  switch (context) {
    case 'word':
      return `"${reference}"`;
    case 'single-quotes':
      return `'"${reference}"'`;
    case 'dollar-quotes':
      return `'"${reference}"$'`;
    case 'double-quotes':
    case 'here-document':
    case 'arithmetic':
    case 'backquotes':
    case 'escaped':
    case 'quoted-here-document':
    case 'here-document-end':
      return reference;
  }
}

/** Rejects a first line for another program: a shell reads that line as a comment, and the rest as its own commands. */
function refuseOtherInterpreter({ value, at }: Located<string>, what: string, problems: Problems): void {
  if (!value.startsWith('#!') || IS_SH.test(value)) return;
  const [line] = value.split('\n', 1);
  const words = line!.slice(2).trim().split(/\s+/);
  const [first = ''] = words.filter((word) => !/(?:^|\/)env$|^-/.test(word));
  const program = first.slice(first.lastIndexOf('/') + 1);
  const shown = /^[\w.+-]{1,40}$/.test(program) ? program : 'PROGRAM';
  problems.error(
    'spec/bad-value',
    at,
    `${what} begins with ${quote(line!)}, but a text always runs as a script of sh`,
    `write \`run: { program: ${shown}, args: [${shown.endsWith('sh') ? '-e, -c' : '-c'}, …] }\``,
  );
}
