import type { Problems } from '../text/diagnostics.ts';
import type { StageSpec } from '../read/spec.ts';
import { quoteYaml } from '../text/tree.ts';
import { quote } from '../../units/quote.ts';

/** Of a shell: words, pipes, redirections, lists, variables, patterns, quotes, and home at the beginning. */
const SHELL_SIGNS = /[\s|<>&;`*?"']|\$[({A-Za-z_]|^~/;

/** A shell with its option: what follows is the script already. */
const SHELL_ITSELF = /^(?:\/(?:usr\/)?bin\/)?(?:sh|ash|bash)\s+-c\s*$/;

/** Most of a command that a remedy writes out. */
const SHOWN_LENGTH = 120;

/** A program is started as it is, so `ls | wc -l` is looked for as a file of that name. A path may hold such signs: a warning. */
export function warnOfShellInProgram(run: NonNullable<StageSpec['run']>, what: string, problems: Problems): void {
  const { program, args } = run;
  // What parameters bring is known only in a run.
  if (!SHELL_SIGNS.test(program.value.replace(/\$\{\{[^{}]*\}\}/g, ''))) return;
  const isShell = SHELL_ITSELF.test(program.value);
  const script = [
    program.value.replace(SHELL_ITSELF, ''),
    ...args.map(({ value }) => (isShell ? value : quoteForShell(value))),
  ]
    .join(' ')
    .trim();
  // A parameter within a script would be read as shell.
  const isShown = script.length <= SHOWN_LENGTH && !/\p{Cc}|\$\{\{/u.test(script);
  const shown = isShown ? quoteYaml(script) : '…';
  problems.warning(
    'spec/shell-in-program',
    program.at,
    `\`program\` of ${what} is ${quote(program.value)}, which no shell reads: the guest looks for a program of that name`,
    `write \`run: ${shown}\``,
  );
}

function quoteForShell(text: string): string {
  return /^[A-Za-z0-9_./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
