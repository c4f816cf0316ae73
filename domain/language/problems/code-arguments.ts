/** Arguments that a program reads as code of its own: a value of a run that stood in one would be code too. */

const SHELLS: ReadonlySet<string> = new Set(['sh', 'bash', 'ash', 'dash', 'ksh', 'mksh', 'zsh']);
/** Programs that read an argument as code, by the options that say so. */
const INTERPRETERS = /^(?:python[\d.]*|node|deno|bun|perl|ruby|php|lua)$/;
const CODE_OPTION = /^(?:-[A-Za-z]*[cepr]|--eval|--print)$/;
const FILTERS = /^[gmn]?awk$/;

/** By the index of an argument the program that reads it as code, also behind programs that start another, such as `env`. */
export function codeArguments(program: string, args: readonly string[]): ReadonlyMap<number, string> {
  const words = [program, ...args];
  const code = new Map<number, string>();
  words.forEach((word, at) => {
    const name = word.slice(word.lastIndexOf('/') + 1);
    const script = SHELLS.has(name) ? scriptBehind(words, at) : null;
    if (script !== null) code.set(script - 1, name);
    if (INTERPRETERS.test(name) && CODE_OPTION.test(words[at + 1] ?? '')) code.set(at + 1, name);
    if (FILTERS.test(name) && at + 1 < words.length && !words[at + 1]!.startsWith('-')) code.set(at, name);
  });
  return code;
}

/** Whether a program of that name reads code, from its standard input too. */
export function isInterpreter(name: string): boolean {
  return SHELLS.has(name) || INTERPRETERS.test(name);
}

/** The first word behind the options of a shell, one of which is `-c`. */
function scriptBehind(words: readonly string[], shell: number): number | null {
  let hasScript = false;
  for (let at = shell + 1; at < words.length; at += 1) {
    const word = words[at]!;
    if (word === '--') return hasScript && at + 1 < words.length ? at + 1 : null;
    if (!/^[-+]./.test(word)) return hasScript ? at : null;
    if (/^-[A-Za-z]*c[A-Za-z]*$/.test(word)) hasScript = true;
    // Its name of an option follows.
    if (/^[-+][A-Za-z]*o$/.test(word)) at += 1;
  }
  return null;
}
