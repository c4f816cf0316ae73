import type { Command } from 'commander';
import type { CommandHelp } from './command-help.ts';
import type { CliContext } from './context.ts';
import type { ExitCode } from './exit-code.ts';

/** One command: how it is typed, and what it does. Its file is loaded only when it is typed. */
export interface CommandModule {
  /** Options whose value must follow `=`: an option without a value would otherwise consume the next argument. */
  readonly withEquals?: readonly string[];
  /** `--` stays among the arguments, because the text after it is another program's command line. */
  readonly hasSeparator?: true;
  /** The command has no JSON output, so it rejects `--json`. The text tells the user what to do instead. */
  readonly withoutJson?: string;
  /** The step that a user takes first if the argument is missing. */
  readonly beforeFirst?: string;
  /**
   * The command accepts a state folder of any format: it does not open the folder, or only shows or ends what runs
   * there.
   */
  readonly takesAnyStateFormat?: true;
  /** Examples, notes and exit codes of its help; without it, the help is commander's. */
  readonly help?: CommandHelp;
  configure(command: Command): void;
  execute(args: readonly string[], options: unknown, context: CliContext): Promise<ExitCode>;
}

/** `Options` is what commander makes of the options that `configure` declares. */
export function defineCommand<Options>(definition: {
  readonly withEquals?: readonly string[];
  readonly hasSeparator?: true;
  readonly withoutJson?: string;
  readonly beforeFirst?: string;
  readonly takesAnyStateFormat?: true;
  readonly help?: CommandHelp;
  readonly configure: (command: Command) => void;
  readonly execute: (args: readonly string[], options: Options, context: CliContext) => Promise<ExitCode>;
}): CommandModule {
  return {
    ...(definition.withEquals === undefined ? {} : { withEquals: definition.withEquals }),
    ...(definition.hasSeparator === undefined ? {} : { hasSeparator: definition.hasSeparator }),
    ...(definition.withoutJson === undefined ? {} : { withoutJson: definition.withoutJson }),
    ...(definition.beforeFirst === undefined ? {} : { beforeFirst: definition.beforeFirst }),
    ...(definition.takesAnyStateFormat === undefined ? {} : { takesAnyStateFormat: definition.takesAnyStateFormat }),
    ...(definition.help === undefined ? {} : { help: definition.help }),
    configure: definition.configure,
    execute: (args, options, context) => definition.execute(args, options as Options, context),
  };
}
