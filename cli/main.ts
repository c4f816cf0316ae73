/** The process behind `voidbox`: makes the context, runs one command, leaves with its exit code. */
import { readEnvironment } from '../setup/environment.ts';
import { createContext } from './context.ts';
import { EXIT } from './exit-code.ts';
import { runCli } from './program.ts';

for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    // A reader that has gone (`voidbox logs | head`) is no error of ours; a run goes on without us.
    if (error.code === 'EPIPE') process.exit(EXIT.success);
    throw error;
  });
}

// Whatever a command has left open (a connection whose calls are still tried again) ends here: every write was awaited.
process.exit(await runCli(process.argv.slice(2), createContext(readEnvironment(), process)));
