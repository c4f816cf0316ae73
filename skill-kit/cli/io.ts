/** The parts of its process that a command line uses, so that commands can run without a process. */
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';

export interface CommandIo {
  /** Without the interpreter and the script. */
  readonly argv: readonly string[];
  stdout(text: string): void;
  stderr(text: string): void;
  /** @throws FolderAsInput */
  readStdin(): Promise<string>;
  /** The script that the skill came from; null if it is unknown. */
  readonly script: string | null;
  /** Before the skill's code runs: the process lets it see what it declares. Absent: it sees what there is. @throws {Error} */
  readonly enter?: (definition: SkillDefinition) => void;
}

/** The command line itself is wrong, before any skill is asked: exit code 2. */
export class UsageError extends Error {}

/** Standard input is a folder. */
export class FolderAsInput extends UsageError {
  constructor() {
    super('it is a folder');
  }
}

export function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
