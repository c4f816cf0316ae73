/**
 * The variables that a worker of your own Temporal server lends to runs: its whole secrets file, and allowed
 * environment variables.
 */
import type { LentVariables } from '../activities/ports/lent-variables.ts';
import { SetupError } from '../setup/setup-error.ts';
import { readSecretsFile } from '../store/secrets-file.ts';
import { valueAt } from '../domain/units/mapping.ts';

export interface LentFrom {
  /** Absolute. */
  readonly secretsFile: string | null;
  /** Names of variables of the worker's environment. No other ones reach a run, whatever its plan names. */
  readonly allowed: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Names of variables in `environment` whose bytes are not UTF-8. */
  readonly undecodable: readonly string[];
}

/** @throws SetupError for an allowed variable that is not set or not UTF-8 */
export function createLentVariables({ secretsFile, allowed, environment, undecodable }: LentFrom): LentVariables {
  const ofEnvironment = Object.fromEntries(
    allowed.map((name) => {
      const value = valueAt(environment, name);
      if (value === undefined)
        throw new SetupError(`The variable ${name} is to be lent to runs, and is not set here.`, `export ${name}=…`);
      if (undecodable.includes(name))
        throw new SetupError(
          `The variable ${name} is to be lent to runs, and its value is not UTF-8: commands would get other bytes.`,
          'Set it to UTF-8 text, for example in base64, and decode it in the command.',
        );
      return [name, value];
    }),
  );
  return {
    read: () =>
      // A refusal of the file rejects, as the port says.
      Promise.resolve().then(() => ({
        ...ofEnvironment,
        ...(secretsFile === null ? {} : readSecretsFile(secretsFile)),
      })),
  };
}
