/** The process behind `voidbox`: makes the context, runs one command, leaves with its exit code. */
import { sanitizeLine } from '../domain/security/sanitize.ts';
import { type Environment, readEnvironment, findUndecodableArguments } from '../setup/environment.ts';
import { addLogin } from '../setup/login-file.ts';
import { refuseBelowFile, refuseOtherThanFolder } from '../setup/cache/own-folder.ts';
import { createUsageError } from '../app/app-error.ts';
import { COMMAND_NAMES } from './command-table.ts';
import { type CliContext, createContext } from './context.ts';
import { EXIT } from './exit-code.ts';
import { printError } from './print-error.ts';
import { runCli } from './program.ts';

/** Null: no command runs yet. */
let running: CliContext | null = null;

for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') leaveReader();
    // For example a full disk. The code that waits for a write to standard output prints its error.
    else if (stream === process.stderr) process.exit(EXIT.environment);
  });
}

/** A reader that closes the pipe (`voidbox logs | head`) causes no error; the run continues without this process. */
function leaveReader(): void {
  const work = running?.readerGone() ?? null;
  if (work === null) process.exit(EXIT.success);
  void work.then(() => process.exit(EXIT.success));
}

/** A login that cannot be used does not stop these. */
const WITHOUT_LOGIN: ReadonlySet<string> = new Set(['login', 'logout', 'help', '--help', '-h', '--version', '-V']);

/** A variable whose value means nothing is an error like any other; only how it is printed is then taken from defaults. */
async function environment(argv: readonly string[]): Promise<Environment> {
  try {
    const read = readEnvironment();
    const env = WITHOUT_LOGIN.has(argv[0] ?? '') ? read : addLogin(read);
    const state = { path: env.stateDir, what: 'state folder', variable: 'VOIDBOX_STATE_DIR' };
    const cache = { path: env.cacheDir, what: 'cache folder', variable: 'VOIDBOX_CACHE_DIR' };
    for (const folder of [state, cache]) {
      refuseOtherThanFolder(folder);
      // `doctor` reports both folders itself.
      if (argv[0] !== 'doctor') refuseBelowFile(folder);
    }
    return env;
  } catch (error) {
    const context = createContext(readEnvironment({}), process, COMMAND_NAMES);
    process.exit(await printError(error, { context, json: argv.includes('--json') }));
  }
}

// Not at the top level: the file is bundled as CommonJS.
async function main(): Promise<never> {
  const typed = process.argv.slice(2);
  const context = createContext(await environment(typed), process, COMMAND_NAMES);
  running = context;
  const [changed] = findUndecodableArguments(typed);
  if (changed !== undefined) {
    const error = createUsageError(
      `the argument \`${sanitizeLine(changed)}\` is not UTF-8`,
      'Use UTF-8 text, or a file for other bytes',
    );
    process.exit(await printError(error, { context, json: typed.includes('--json') }));
  }
  const code = await runCli(typed, context);
  // Whatever a command has left open (a connection whose calls are still tried again) ends here: every write was awaited.
  process.exit(code);
}

void main();
