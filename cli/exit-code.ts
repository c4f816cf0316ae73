import type { Fault } from '../app/app-error.ts';

/** The meanings of the exit codes; documented in docs/reference/cli.md and kept stable. */
export const EXIT = {
  success: 0,
  /** The run ended without success, or a bug of ours. */
  runFailed: 1,
  /** Bad flags, an unknown run, an invalid spec: the caller changes what was typed. */
  usage: 2,
  /** A piece of the host, a server or a variable is missing: the host is changed. */
  environment: 3,
  /** Ctrl-C, as shells count it. */
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Converts the exit code of a command in a VM, which `voidbox exec` passes on; any number is possible. */
export function toExitCode(code: number): ExitCode {
  return code as ExitCode;
}

/** Returns the exit code for an error that a use-case throws. */
export function exitCodeOf(fault: Fault): ExitCode {
  switch (fault) {
    case 'usage':
      return EXIT.usage;
    case 'environment':
      return EXIT.environment;
    case 'failed':
      return EXIT.runFailed;
  }
}
