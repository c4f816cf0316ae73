/** For tests that put files into a state folder without a store. */
import { keepStateFormat } from '../../../store/state-format.ts';

/** Makes the folder, if it is absent, and gives it the number of this build. */
export function makeStateFolder(stateDir: string): string {
  keepStateFormat(stateDir);
  return stateDir;
}
