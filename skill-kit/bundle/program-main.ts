/** Runs the program of a skill, built or from its source. The program that program.ts writes calls this. */
import { main, referenceMain } from '../cli.ts';
import { type RunOrigin, setRunOrigin } from './run-origin.ts';
import { toBuildable } from './buildable.ts';

/**
 * Ends the process.
 * @param found  the default export of the skill's entry
 * @param base  the folder that holds `references/`
 * @param packageVersion  of the nearest package.json, for a definition that leaves its version to it
 * @param origin  set if the skill runs from its source
 */
export async function runProgram(
  found: unknown,
  base: string,
  packageVersion: string | null,
  origin: RunOrigin | null = null,
): Promise<void> {
  if (origin !== null) setRunOrigin(origin);
  const definition = toBuildable(found);
  if (typeof definition === 'string') {
    process.stderr.write(`error: the entry ${definition}\n`);
    process.exit(2);
  }
  const version = definition.resolveVersion ? (packageVersion ?? definition.version) : definition.version;
  if (definition.kind === 'skill') await main({ ...definition, version }, base);
  else await referenceMain({ ...definition, version }, base);
}
