/** Finds remedies for mistakes in expressions. Many authors know the similar expressions of other systems. */

/** Functions of other systems, and methods that are written as functions. */
const FUNCTIONS: Readonly<Record<string, string>> = {
  success: 'remove it: a stage starts after the stages that it waits for have succeeded',
  failure: 'write `on_failure: [STAGE]` instead of the condition',
  always: 'write `finally: true` instead of the condition',
  cancelled: 'write `finally: true`, and `when: stages.NAME.state == "cancelled"`',
  fromJSON: 'read the output as JSON: `stages.NAME.json`',
  contains: 'call it as a method: `TEXT.contains("part")`',
  startsWith: 'call it as a method: `TEXT.startsWith("part")`',
  endsWith: 'call it as a method: `TEXT.endsWith("part")`',
};

const READS = 'read `params.NAME`, or `output`, `json`, `state` or `exit_code` of `stages.NAME`';

/** Variables of other systems. */
const VARIABLES: Readonly<Record<string, string>> = {
  steps: 'write `stages.NAME`',
  jobs: 'write `stages.NAME`',
  needs: 'write `stages.NAME`',
  tasks: 'write `stages.NAME`',
  inputs: 'write `params.NAME`',
  vars: 'write `params.NAME`',
  item: 'read it in the texts of a stage with `for_each`, or of a part that is used with `for_each`; a condition cannot read items',
  item_index:
    'read it in the texts of a stage with `for_each`, or of a part that is used with `for_each`; a condition cannot read items',
  env: 'an expression cannot read variables: pass the value as a parameter, and write `params.NAME`',
  secrets: 'an expression cannot read secrets: let a command read the secret, and use its output',
};

/** A name after a dot that the language reads as a word. */
const WORD_AS_NAME = /(\w[\w.[\]"'?]*)\.\??(in|true|false|null)\b/;
const SIGNS = /\b(?:and|or|not)\b/;
const EQUALS = /[!=]==|[^=!<>]=[^=]/;
const STRINGS = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g;

/**
 * @param code  of the library's error
 * @returns null if the docs are the only help
 */
export function suggestRemedy(code: string, summary: string, source: string): string | null {
  const word = /^expected IDENTIFIER/i.test(summary)
    ? WORD_AS_NAME.exec(source.replaceAll(STRINGS, (text) => text.replaceAll(/[^"']/g, '_')))
    : null;
  if (word !== null) {
    const of = source.slice(word.index, word.index + word[1]!.length);
    return `\`${word[2]!}\` is a keyword of CEL: write \`${of}["${word[2]!}"]\``;
  }
  switch (code) {
    case 'no_such_overload':
      return 'convert a value: `int(…)`, `double(…)`, `string(…)`';
    case 'no_matching_overload': {
      const name = /'(?:.*\.)?(\w+)\(/.exec(summary)?.[1] ?? '';
      return Object.hasOwn(FUNCTIONS, name) ? FUNCTIONS[name]! : null;
    }
    case 'unknown_variable': {
      const name = /: (\w+)$/.exec(summary)?.[1] ?? '';
      return Object.hasOwn(VARIABLES, name) ? VARIABLES[name]! : READS;
    }
    case 'unexpected_character':
    case 'unexpected_token': {
      const outside = source.replaceAll(STRINGS, '""');
      if (SIGNS.test(outside)) return 'write `&&` for and, `||` for or, `!` for not';
      return EQUALS.test(outside) ? 'write `==` or `!=` to compare' : null;
    }
    default:
      return null;
  }
}
