import type { ErrorCodeInfo } from './code-info.ts';

/** Codes of the command line itself, in `error.code` of `--json`. No run and no stage ends with one. Part of `ERROR_CODES`. */
export const CLI_CODES = {
  'cli/usage': ofCommand(
    'What was typed is no command, or names something that is not there: a flag, a file, a run, a stage.',
    'Do what the message says; `voidbox COMMAND --help` has the flags.',
  ),
  'spec/invalid': ofCommand(
    'The spec has mistakes, which are listed before this, each with its own code.',
    'Correct them; `voidbox validate FILE` lists them without starting anything.',
  ),
  'cli/mount-missing': ofCommand(
    'The spec mounts a folder that cannot be read where the command was typed.',
    "Make it, or correct `host` of the mount; a relative one stands below the spec's folder.",
  ),
  'cli/no-server': ofCommand(
    'No Temporal server answers: the one that the settings name, or the embedded one.',
    'Do what the message says; `voidbox ps` shows how the embedded server is.',
  ),
  'cli/run-elsewhere': ofCommand(
    'The run is known to the Temporal server, and its data is on another host.',
    'Type the command on the host that the message names.',
  ),
  'cli/elsewhere': ofCommand(
    "Older records of a session are on the host of its worker, which isn't this one.",
    'Type the command there.',
  ),
  'cli/no-result': ofCommand(
    'The run succeeded and no result of it was kept.',
    'See what its stages left: `voidbox status RUN`.',
  ),
  'cli/bug': ofCommand('The command line itself did something wrong.', 'Report it with the message.'),
} as const satisfies Record<string, ErrorCodeInfo>;

function ofCommand(
  summary: string,
  remedy: string,
): ErrorCodeInfo & { readonly kind: 'command'; readonly retry: 'never' } {
  return { kind: 'command', retry: 'never', summary, remedy };
}
