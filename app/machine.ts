import type { ServerLink } from '../client/temporal/server-link.ts';
import type { Environment } from '../setup/environment.ts';
import type { Stores } from '../store/stores.ts';

/** The machine and the person that make a request: use-cases access neither the process nor a terminal. */
export interface Machine {
  readonly env: Environment;
  /** Relative paths of the request start here. Absolute. */
  readonly cwd: string;
  /** The bytes that the request brings with it, such as a spec or an input. */
  readStdin(): Promise<Uint8Array>;
  /** Asks the person a question. Null: there is no person to ask. Only `y` and `yes` are true. @throws Interrupted */
  confirm(question: string): Promise<boolean | null>;
  /** The stores of runs: opened at the first call, the same at each later call. */
  stores(): Promise<Stores>;
  now(): Date;
  /**
   * The only folder of this machine that the request may name and read, for a request that does not come from its user:
   * the uploads of a token. Such a request gets no login of the user. Absent: the request comes from the user.
   */
  readonly confinedTo?: string | undefined;
  /**
   * The connection of a process that belongs to the embedded stack; null while the server of the stack does not answer.
   * Absent: the process is a command, which may start the stack and restart it.
   */
  stackLink?(): Promise<ServerLink | null>;
  /**
   * Returns the values of secrets of a deployment, by name, for runs that repeat one of its runs. Absent: the process has
   * no database of secrets.
   */
  readDeploymentSecrets?(deployment: string, names: readonly string[]): Promise<Readonly<Record<string, string>>>;
  /**
   * Warns the person of a problem that limits the answer, such as a server that does not respond. One line, already
   * sanitized.
   */
  warn(line: string): Promise<void>;
}
