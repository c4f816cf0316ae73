import type { CommandEntry, CommandFamily } from './command-entry.ts';
import { COMMANDS } from './command-table.ts';
import type { ServiceSettings } from '../domain/access/service-settings.ts';
import type { CliContext } from './context.ts';
import { EXIT, type ExitCode } from './exit-code.ts';
import { renderHelp } from './help.ts';
import { printError } from './print-error.ts';
import { readVersion } from '../setup/package-version.ts';

/** Runs what was typed and returns the exit code. Never throws: it prints every error. */
export async function runCli(argv: readonly string[], context: CliContext): Promise<ExitCode> {
  try {
    return await dispatch(argv, context);
  } catch (error) {
    return await printError(error, { context, json: asksForJson(argv) });
  } finally {
    await context.close();
  }
}

/** Arguments after `--` belong to the command that `exec` runs. */
function asksForJson(argv: readonly string[]): boolean {
  const separator = argv.indexOf('--');
  return argv.slice(0, separator < 0 ? undefined : separator).includes('--json');
}

async function dispatch(argv: readonly string[], context: CliContext): Promise<ExitCode> {
  const [first, second, ...rest] = argv;
  if (first === undefined) {
    const { renderFirstSteps } = await import('./first-steps.ts');
    await context.stderr.write(renderFirstSteps(context.stderr.style, context.advise));
    return EXIT.usage;
  }
  if (first === '--help' || first === '-h' || (first === 'help' && second === undefined)) {
    await context.stdout.write(renderHelp(context.stdout.style));
    return EXIT.success;
  }
  if (first === '--version' || first === '-V') {
    await context.stdout.write(`${readVersion()}\n`);
    return EXIT.success;
  }
  if (first === 'help' && second !== undefined) return await dispatch([second, ...rest, '--help'], context);
  const entry = COMMANDS.find((candidate) => candidate.name === first);
  if (entry !== undefined && 'commands' in entry) return await runFamily(entry, argv.slice(1), context);
  return await runCommand(argv, context, COMMANDS, entry);
}

async function runFamily(family: CommandFamily, argv: readonly string[], context: CliContext): Promise<ExitCode> {
  const [verb] = argv;
  if (verb === undefined || verb === '--help' || verb === '-h') {
    const { renderFamilyHelp } = await import('./family-help.ts');
    const sink = verb === undefined ? context.stderr : context.stdout;
    await sink.write(renderFamilyHelp(family, sink.style));
    return verb === undefined ? EXIT.usage : EXIT.success;
  }
  const entry = family.commands.find((candidate) => candidate.name === verb);
  return await runCommand(argv, context, family.commands, entry, family);
}

async function runCommand(
  argv: readonly string[],
  context: CliContext,
  known: readonly (CommandEntry | CommandFamily)[],
  entry: CommandEntry | undefined,
  family?: CommandFamily,
): Promise<ExitCode> {
  const { Command, CommanderError } = await import('commander');
  const root = new Command(family === undefined ? 'voidbox' : `voidbox ${family.name}`)
    .helpCommand(false)
    .exitOverride()
    .showSuggestionAfterError();
  // Commander's text for usage errors becomes an AppError below, so that it also respects --json.
  let complaint = '';
  let withoutJson: string | undefined;
  let beforeFirst: string | undefined;
  let help = '';
  root.configureOutput({
    writeOut: (text) => {
      help += text;
    },
    writeErr: (text) => {
      complaint += text;
    },
  });
  let exitCode: ExitCode = EXIT.success;
  let typed = [...argv];
  if (entry === undefined) {
    for (const candidate of known) root.command(candidate.name).description(candidate.summary);
  } else {
    const { command: module } = await entry.load();
    const command = root.command(entry.name).description(sentence(entry));
    ({ withoutJson, beforeFirst } = module);
    if (withoutJson === undefined) command.option('--json', 'print JSON instead of text');
    module.configure(command);
    const { help: own } = module;
    if (own?.usage !== undefined) command.usage(own.usage);
    if (own !== undefined) {
      // Most commands have no such help.
      const { renderCommandHelp } = await import('./command-help.ts');
      command.configureHelp({ formatHelp: (each, helper) => renderCommandHelp(each, helper, own) });
    }
    typed = argv.map((each) => (module.withEquals?.includes(each) === true ? `${each}=` : each));
    // The parser takes the first one away.
    const separator = module.hasSeparator === true ? typed.indexOf('--') : -1;
    if (separator >= 0) typed.splice(separator, 0, '--');
    command.action(async () => {
      if (context.env.service !== null) await requireAnyMachine(entry, family, context.env.service);
      else if (module.takesAnyStateFormat !== true) await requireOurState(context);
      exitCode = await module.execute(command.args, command.opts(), context);
    });
  }
  try {
    // An unknown command has no options to check: report only its name.
    await root.parseAsync(entry === undefined ? argv.slice(0, 1) : typed, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode !== 0) {
      const { toUsageError } = await import('./usage-error.ts');
      throw toUsageError(complaint, { entry, family, withoutJson, beforeFirst });
    }
    await context.stdout.write(help);
  }
  return exitCode;
}

/** @throws AppError for a command that needs the machine of the runs, if the runs are on another machine */
async function requireAnyMachine(
  entry: CommandEntry,
  family: CommandFamily | undefined,
  { name, isLogin }: ServiceSettings,
): Promise<void> {
  if (entry.isForAnyMachine === true) return;
  const { AppError } = await import('../app/app-error.ts');
  const command = family === undefined ? entry.name : `${family.name} ${entry.name}`;
  throw new AppError(
    'usage',
    'cli/not-remote',
    `\`voidbox ${command}\` is for the machine of the runs, but ${isLogin === true ? 'your login' : 'VOIDBOX_SERVER'} names ${name}`,
    isLogin === true
      ? 'Use it on that machine, or end the login for the runs of this one: voidbox logout'
      : 'Use it on that machine, or unset VOIDBOX_SERVER for the runs of this one.',
  );
}

/** Loaded here and not above: help reads no folder. @throws CodedError `host/state-format` */
async function requireOurState({ env }: CliContext): Promise<void> {
  const { requireStateFormat } = await import('../store/state-format.ts');
  requireStateFormat(env.stateDir);
}

function sentence(entry: CommandEntry): string {
  if (entry.about !== undefined) return entry.about;
  return `${entry.summary.charAt(0).toUpperCase()}${entry.summary.slice(1)}.`;
}
