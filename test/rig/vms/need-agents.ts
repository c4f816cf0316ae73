/**
 * Demands the pieces for tests with command lines of agents. A missing piece fails them by its name, so that no test is
 * skipped in silence.
 */
import { type Environment, readEnvironment } from '../../../setup/environment.ts';
import type { OptionalPieceName } from '../../../setup/pieces/piece.ts';
import { resolveOptionalPieces, SetupError } from '../../../setup/resolve.ts';

/** Includes a download of 170 MB. */
export const AGENTS_LIMIT_MS = 1_200_000;

/** @throws Error with a line `NOT RUN` for each that is not there and cannot be fetched */
export async function needAgents(
  what: string,
  names: readonly OptionalPieceName[],
  env: Environment = readEnvironment(),
): Promise<void> {
  const lacking: string[] = [];
  for (const name of names) {
    try {
      await resolveOptionalPieces(env, [name], { install: true, onProgress: (line) => console.error(line) });
    } catch (error) {
      const remedy = error instanceof SetupError && error.remedy !== null ? `\n  ${error.remedy}` : '';
      lacking.push(`NOT RUN: ${what} need ${name}: ${String(error)}${remedy}`);
    }
  }
  if (lacking.length > 0) throw new Error(lacking.join('\n'));
}
