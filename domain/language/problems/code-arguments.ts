/** Finds arguments that a program executes as code: a value of a run in such an argument would be code too. */

const SHELLS: ReadonlySet<string> = new Set(['sh', 'bash', 'ash', 'dash', 'ksh', 'mksh', 'zsh']);
/** Programs that execute the argument of an option such as `-c` or `--eval`. */
const INTERPRETERS = /^(?:python[\d.]*|node|deno|bun|perl|ruby|php|lua)$/;
const CODE_OPTION = /^(?:-[A-Za-z]*[cepr]|--eval|--print)$/;
const FILTERS = /^[gmn]?awk$/;

/**
 * Maps the index of an argument to the program that executes it as code, also if another program such as `env` starts
 * that one.
 */
export function codeArguments(program: string, args: readonly string[]): ReadonlyMap<number, string> {
  const words = [program, ...args];
  const code = new Map<number, string>();
  words.forEach((word, at) => {
    const name = word.slice(word.lastIndexOf('/') + 1);
    const script = SHELLS.has(name) ? scriptBehind(words, at) : null;
    if (script !== null) code.set(script - 1, name);
    const hasCode = at + 2 < words.length && CODE_OPTION.test(words[at + 1]!);
    if (INTERPRETERS.test(name) && hasCode) code.set(at + 1, name);
    if (FILTERS.test(name) && at + 1 < words.length && !words[at + 1]!.startsWith('-')) code.set(at, name);
  });
  return code;
}

/** Whether a program of that name executes code, also from its standard input. */
export function isInterpreter(name: string): boolean {
  return SHELLS.has(name) || INTERPRETERS.test(name);
}

/** Returns the first word after the options of a shell, if one of them is `-c`. */
function scriptBehind(words: readonly string[], shell: number): number | null {
  let hasScript = false;
  for (let at = shell + 1; at < words.length; at += 1) {
    const word = words[at]!;
    if (word === '--') return hasScript && at + 1 < words.length ? at + 1 : null;
    if (!/^[-+]./.test(word)) return hasScript ? at : null;
    if (/^-[A-Za-z]*c[A-Za-z]*$/.test(word)) hasScript = true;
    // The name of a shell option follows.
    if (/^[-+][A-Za-z]*o$/.test(word)) at += 1;
  }
  return null;
}
