/** The state folder for a command that writes to it. */
import { makeOwnFolder } from '../setup/own-folder.ts';
import { keepStateFormat } from '../store/state-format.ts';

/**
 * Makes an absent folder, and gives one without contents its number.
 * @throws SetupError if the folder cannot be made or written, or is another user's; CodedError `host/state-format`
 */
export function openStateFolder(stateDir: string): void {
  makeOwnFolder({ path: stateDir, what: 'state folder', variable: 'VOIDBOX_STATE_DIR' });
  keepStateFormat(stateDir);
}
