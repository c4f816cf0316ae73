import { CliError } from './cli-error.ts';
import { COMMANDS, type CommandEntry } from './command-table.ts';
import type { CliContext } from './context.ts';
import { EXIT, type ExitCode } from './exit-code.ts';
import { renderHelp } from './help.ts';
import { printError } from './print-error.ts';
import { readVersion } from './version.ts';

/** Does what was typed and gives the exit code. Never throws: every error is printed here. */
export async function runCli(argv: readonly string[], context: CliContext): Promise<ExitCode> {
  try {
    return await dispatch(argv, context);
  } catch (error) {
    return await printError(error, { context, json: argv.includes('--json') });
  }
}

async function dispatch(argv: readonly string[], context: CliContext): Promise<ExitCode> {
  const [first, second, ...rest] = argv;
  if (first === undefined) {
    await context.stderr.write(renderHelp(context.stderr.style));
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
  if (first === 'help' && second !== undefined) return await runCommand([second, '--help', ...rest], context);
  return await runCommand(argv, context);
}

async function runCommand(argv: readonly string[], context: CliContext): Promise<ExitCode> {
  const { Command, CommanderError } = await import('commander');
  const entry = COMMANDS.find((candidate) => candidate.name === argv[0]);
  const root = new Command('voidbox').helpCommand(false).exitOverride().showSuggestionAfterError();
  // Commander's own words for usage errors become a CliError below, so that --json reaches them too.
  let complaint = '';
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
  if (entry === undefined) {
    for (const candidate of COMMANDS) root.command(candidate.name).description(candidate.summary);
  } else {
    const { command: module } = await entry.load();
    const command = root.command(entry.name).description(sentence(entry));
    command.option('--json', 'print JSON instead of text');
    module.configure(command);
    command.action(async () => {
      exitCode = await module.execute(command.args, command.opts(), context);
    });
  }
  try {
    // Without a command its options are nobody's: what is wrong is the name.
    await root.parseAsync(entry === undefined ? argv.slice(0, 1) : [...argv], { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode !== 0) throw toUsageError(complaint, entry);
    await context.stdout.write(help);
  }
  return exitCode;
}

function sentence(entry: CommandEntry): string {
  return `${entry.summary.charAt(0).toUpperCase()}${entry.summary.slice(1)}.`;
}

/** Commander writes `error: unknown command 'rnu'` and, on a line of its own, `(Did you mean run?)`. */
function toUsageError(complaint: string, entry: CommandEntry | undefined): CliError {
  const lines = complaint
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const message = (lines[0] ?? 'error: bad usage').replace(/^error: /, '');
  const suggestion = lines.find((line) => line.startsWith('(Did you mean'))?.slice(1, -1);
  const help = entry === undefined ? 'All commands: voidbox --help' : `All options: voidbox ${entry.name} --help`;
  return new CliError(EXIT.usage, 'cli/usage', message, suggestion === undefined ? help : `${suggestion}\n${help}`);
}
