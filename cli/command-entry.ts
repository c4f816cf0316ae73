/** How the table of commands describes a command. */
import type { CommandModule } from './command.ts';

export interface CommandEntry {
  readonly name: string;
  /** How it is typed, without options. */
  readonly usage: string;
  readonly summary: string;
  /** The first sentence of its own help, if the summary is too short without the list around it. */
  readonly about?: string;
  /**
   * It works with the runs of another machine, or with files only. Absent: it is for the machine of the runs, and is
   * refused if `VOIDBOX_SERVER` or a login names another one.
   */
  readonly isForAnyMachine?: true;
  readonly load: () => Promise<{ readonly command: CommandModule }>;
}

/** A command that only has commands of its own: `voidbox session start`. */
export interface CommandFamily {
  readonly name: string;
  readonly usage: string;
  readonly summary: string;
  readonly commands: readonly CommandEntry[];
}

export interface CommandGroup {
  readonly title: string;
  readonly commands: readonly (CommandEntry | CommandFamily)[];
}
