/** The folder of private repositories, in the state folder of this machine. */
import { join } from 'node:path';
import { openScratch } from '../git/private-repository.ts';
import { keepStateFormat } from '../store/state-format.ts';

/**
 * A command whose runs are on another machine may be the first that writes to the state folder. So it writes the
 * format number too: later commands refuse a folder without it.
 * @throws CodedError `host/state-format`
 */
export function openGitScratch(stateDir: string): string {
  keepStateFormat(stateDir);
  const scratch = join(stateDir, 'git');
  openScratch(scratch);
  return scratch;
}
