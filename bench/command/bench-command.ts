/** The command lines of the benches: each has help, and an error with its usage and exit code 2. */
import { Argument, Command, InvalidArgumentError } from 'commander';

/** Returns the command of a bench that takes the figures named, or all. `command` is its name for npm, such as `bench:steps`. */
export function makeBenchCommand(command: string, summary: string, figures: readonly string[]): Command {
  return new Command(`npm run ${command} --`)
    .usage('[options] [figure...]')
    .description(summary)
    .addArgument(new Argument('[figure...]', 'only these figures').choices(figures).default([], 'all'))
    .option('--rounds <N>', 'measurements of each arm', makeCountReader(1_000_000), 5)
    .option('--no-write', 'prints the figures, and leaves the page of the documentation as it is')
    .showHelpAfterError()
    .exitOverride((end) => process.exit(end.exitCode === 0 ? 0 : 2));
}

/** Returns a reader of whole numbers from 1 to `most`. */
export function makeCountReader(most: number): (text: string) => number {
  return (text) => {
    const count = Number(text);
    if (!/^[0-9]+$/.test(text) || count < 1 || count > most)
      throw new InvalidArgumentError(`A whole number from 1 to ${most} fits.`);
    return count;
  };
}
