/** Finds places of a script in which a value would be code, or would not be available. */
import { codeArguments, isInterpreter } from './code-arguments.ts';
import { isExpression, paramName } from '../grammar/placeholders.ts';
import { typeOf } from '../read/params.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { Spec } from '../read/spec.ts';
import { quote } from '../../units/quote.ts';
import type { Script, ScriptValue } from '../script/read-script.ts';
import type { ShellWord } from '../script/shell-contexts.ts';

/** Builtins of a shell that execute their arguments as a script. */
const READS_ARGUMENTS: ReadonlySet<string> = new Set(['eval', 'let', 'trap']);

/** Words that may precede a command of a shell. */
const PREFIXES: ReadonlySet<string> = new Set(['command', 'builtin', 'exec', 'time']);

export function refuseValuesInCode(script: Script, spec: Spec, what: string, problems: Problems): void {
  const report = (value: ScriptValue, message: string, remedy: string): void =>
    problems.error(
      'spec/bad-placeholder',
      script.text.at,
      `\`run\` of ${what} has ${quote(value.written)} ${message}`,
      remedy,
    );
  const plain = new Set(
    spec.params.filter((param) => !['text', 'list'].includes(typeOf(param))).map(({ name }) => name),
  );
  // A number, a boolean and a choice of the author cannot contain code.
  const mayBeCode = ({ written }: ScriptValue): boolean => {
    const inner = written.slice('${{'.length, -'}}'.length);
    return isExpression(inner) || !plain.has(paramName(inner) ?? '');
  };
  for (const value of script.values) reportContext(value, mayBeCode(value), report);
  for (const [index, interpreter] of findCode(script)) {
    const value = script.values[index]!;
    if (mayBeCode(value))
      report(
        value,
        `in a program of ${interpreter}, which would read the value as code`,
        'write `export VALUE=${{ … }}` before it, and read that variable in the program; keep the text of the program in single quotes',
      );
  }
}

function reportContext(
  value: ScriptValue,
  mayBeCode: boolean,
  report: (value: ScriptValue, message: string, remedy: string) => void,
): void {
  switch (value.context) {
    case 'arithmetic':
      if (mayBeCode)
        report(
          value,
          'in arithmetic, where some shells read the value as code',
          'calculate in the expression, such as `${{ int(stages.NAME.output) + 1 }}`, or declare the parameter with `type: number`',
        );
      return;
    case 'backquotes':
      return report(value, 'in backquotes, where quotes have another meaning', 'write `$(…)` instead of backquotes');
    case 'escaped':
      return report(value, 'after a backslash', 'write `$${{` for the literal text, or remove the backslash');
    case 'quoted-here-document':
      return report(
        value,
        'in a here-document with a quoted end, in which a shell expands nothing',
        'write its end without quotes (`<<EOF`), and put a backslash before each other `$` of the text',
      );
    case 'here-document-end':
      return report(
        value,
        'in the end word of a here-document, in which a shell expands nothing',
        'write a plain word as the end, such as `<<EOF`',
      );
    case 'word':
    case 'double-quotes':
    case 'single-quotes':
    case 'dollar-quotes':
    case 'here-document':
      return;
  }
}

/** Maps the index of a value to the program that executes it as code. */
function findCode({ reading }: Script): ReadonlyMap<number, string> {
  const found = new Map<number, string>();
  for (const command of reading.commands) {
    const words = commandIn(command);
    const [program, ...args] = words.map(({ text }) => text);
    if (program === undefined) continue;
    if (READS_ARGUMENTS.has(program)) for (const { places } of words.slice(1)) note(found, places, program);
    for (const [index, interpreter] of codeArguments(program, args))
      note(found, words[index + 1]?.places ?? [], interpreter);
  }
  for (const { command, places } of reading.documents) noteRead(found, command, places);
  for (const { from, to } of reading.pipes) {
    noteRead(
      found,
      to,
      from.flatMap(({ places }) => places),
    );
    for (const { command, places } of reading.documents) if (command === from) noteRead(found, to, places);
  }
  return found;
}

/**
 * Records the places that a command reads from its standard input: an interpreter without a file executes its input.
 */
function noteRead(found: Map<number, string>, command: readonly ShellWord[], places: readonly number[]): void {
  const [program, ...args] = commandIn(command).map(({ text }) => text);
  const name = program?.slice(program.lastIndexOf('/') + 1);
  if (name !== undefined && isInterpreter(name) && args.every((arg) => arg.startsWith('-'))) note(found, places, name);
}

function note(found: Map<number, string>, places: readonly number[], program: string): void {
  for (const place of places) if (!found.has(place)) found.set(place, program);
}

/** Removes the assignments and prefixes before a command. */
function commandIn(words: readonly ShellWord[]): readonly ShellWord[] {
  const first = words.findIndex(({ text }) => !/^[A-Za-z_]\w*=/.test(text) && !PREFIXES.has(text));
  return first === -1 ? [] : words.slice(first);
}
