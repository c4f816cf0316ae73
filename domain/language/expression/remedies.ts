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
/** A name after a dot that needs brackets, because the language reads `-` as minus, and a digit as a number. */
const NAME_WITH_SIGN = /\b((?:stages|params|item)(?:\.\??[A-Za-z_]\w*|\[[^\]]*\])*)\.\??(\w+(?:-\w+)+|\d\w*)/;
/** A name with dots before a field, which the language reads as a name and a field that no stage has. */
const NAME_WITH_DOT =
  /\bstages\.\??(?!\w+\.\??(?:output|json|state|exit_code)\b)([\w-]+?(?:\.[\w-]+?)+)\.\??(output|json|state|exit_code)\b/;
const SIGNS = /\b(?:and|or|not)\b/;
const EQUALS = /[!=]==|[^=!<>]=[^=]/;
const STRINGS = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g;

/**
 * @param code  of the library's error
 * @returns null if the docs are the only help
 */
export function suggestRemedy(code: string, summary: string, source: string): string | null {
  const isNoName = /^expected IDENTIFIER/i.test(summary);
  const word = isNoName ? WORD_AS_NAME.exec(maskStrings(source)) : null;
  if (word !== null) {
    const of = source.slice(word.index, word.index + word[1]!.length);
    return `\`${word[2]!}\` is a keyword of CEL: write \`${of}["${word[2]!}"]\``;
  }
  if (isNoName) return suggestBrackets(source);
  switch (code) {
    case 'no_such_overload':
      return 'convert a value: `int(…)`, `double(…)`, `string(…)`';
    case 'no_matching_overload': {
      const name = /'(?:.*\.)?(\w+)\(/.exec(summary)?.[1] ?? '';
      return Object.hasOwn(FUNCTIONS, name) ? FUNCTIONS[name]! : null;
    }
    case 'unknown_variable': {
      const name = /: (\w+)$/.exec(summary)?.[1] ?? '';
      // `params.dry-run` is a subtraction of `run`.
      const brackets = NAME_WITH_SIGN.exec(maskStrings(source))?.[2]?.split('-').includes(name) === true;
      if (brackets) return suggestBrackets(source);
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

/** Suggests brackets for the first name in the source that the language does not read as one, or null. */
export function suggestBrackets(source: string): string | null {
  const masked = maskStrings(source);
  const dotted = NAME_WITH_DOT.exec(masked);
  if (dotted !== null) return `if "${dotted[1]!}" is a stage, write \`stages["${dotted[1]!}"].${dotted[2]!}\``;
  const signed = NAME_WITH_SIGN.exec(masked);
  if (signed === null) return null;
  const of = source.slice(signed.index, signed.index + signed[1]!.length);
  const reason = signed[2]!.includes('-') ? 'with `-`' : 'that begins with a digit';
  return `a name ${reason} needs brackets: write \`${of}["${signed[2]!}"]\``;
}

/** Replaces the characters of strings in the source, so that no pattern finds a name in them. */
function maskStrings(source: string): string {
  return source.replaceAll(STRINGS, (text) => text.replaceAll(/[^"']/g, '_'));
}
