import type { Problems } from '../text/diagnostics.ts';
import type { StageSpec } from '../read/spec.ts';
import { quoteYaml } from '../text/tree.ts';
import { quote } from '../../units/quote.ts';

/** Signs of a shell: words, pipes, redirections, lists, variables, patterns, quotes, and `~` at the start. */
const SHELL_SIGNS = /[\s|<>&;`*?"']|\$[({A-Za-z_]|^~/;

/** A shell with its option: the arguments after it are the script. */
const SHELL_ITSELF = /^(?:\/(?:usr\/)?bin\/)?(?:sh|ash|bash)\s+-c\s*$/;

/** The most characters of a command in a remedy. */
const SHOWN_LENGTH = 120;

/**
 * Warns of shell syntax in `program`: the guest looks for a file with the name `ls | wc -l`. It is only a warning,
 * because a path may contain such signs.
 */
export function warnOfShellInProgram(run: NonNullable<StageSpec['run']>, what: string, problems: Problems): void {
  const { program, args } = run;
  // Values of parameters are known only in a run.
  if (!SHELL_SIGNS.test(program.value.replace(/\$\{\{[^{}]*\}\}/g, ''))) return;
  const isShell = SHELL_ITSELF.test(program.value);
  const script = [
    program.value.replace(SHELL_ITSELF, ''),
    ...args.map(({ value }) => (isShell ? value : quoteForShell(value))),
  ]
    .join(' ')
    .trim();
  // A shell would read a parameter within the script as code.
  const isShown = script.length <= SHOWN_LENGTH && !/\p{Cc}|\$\{\{/u.test(script);
  const shown = isShown ? quoteYaml(script) : '…';
  problems.warning(
    'spec/shell-in-program',
    program.at,
    `\`program\` of ${what} is ${quote(program.value)}, which is not run by a shell: the guest looks for a program of that name`,
    `write \`run: ${shown}\``,
  );
}

function quoteForShell(text: string): string {
  return /^[A-Za-z0-9_./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
