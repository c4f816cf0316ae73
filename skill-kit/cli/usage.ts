/** Finds mistakes in a command line that are wrong for every command, before any code of the skill runs. */
import type { Flags } from './flags.ts';
import { UsageError } from './io.ts';
import { shorten } from '../../domain/units/quote.ts';

export type Command = 'start' | 'advance' | 'cleanup';

const FILE_SESSION_FLAGS = ['session-dir', 'output-mode'] as const;
const HISTORY_FLAGS = ['history', 'history-file'] as const;

/** @throws {UsageError} naming the words that no command takes, or the flags that exclude each other */
export function checkUsage(command: Command, flags: Flags): void {
  const [surplus] = flags.surplus;
  if (surplus !== undefined) throw surplusArgument(command, surplus);
  const { session } = flags.text;
  const findGiven = (names: readonly (keyof Flags['text'])[]): string | undefined =>
    names.find((name) => flags.text[name] !== undefined);
  if (isDurable(command, flags)) {
    const flag = findGiven([...FILE_SESSION_FLAGS, ...HISTORY_FLAGS]);
    if (flag === undefined) return;
    const why = flags.durable ? '--durable is given' : `"${session}" has a dash, as ids of durable sessions have`;
    throw new UsageError(
      `--${flag} does not apply to a durable session, and ${why}. Leave out --${flag}${flags.durable ? ', or --durable' : ', or give the id of a session in a file'}.`,
    );
  }
  const flag = findGiven(session === undefined ? FILE_SESSION_FLAGS : HISTORY_FLAGS);
  if (flag === undefined) return;
  throw new UsageError(
    session === undefined
      ? `--${flag} applies to a session in a file, and there is no --session. Add --session ${command === 'start' ? 'new' : '<id>'}, or leave out --${flag}.`
      : `--${flag} and --session cannot be combined: the session file has the history. Remove one of them.`,
  );
}

/** Ids of sessions in files are hexadecimal; those that are made for durable ones have dashes. */
export function isDurable(command: Command, { durable, text }: Flags): boolean {
  return durable || (command !== 'start' && text.session?.includes('-') === true);
}

/** Reports a word after a command that takes no more words. */
export function surplusArgument(command: string, argument: string): UsageError {
  return new UsageError(`${command} takes no argument "${shorten(argument)}". --help lists its flags.`);
}
