/** Opens the state folder for a command that writes to it. */
import { makeOwnFolder } from '../../setup/cache/own-folder.ts';
import { isDiskFull } from '../../store/disk-room.ts';
import { keepStateFormat } from '../../store/state-format.ts';

/**
 * Creates a missing folder, and writes the format number into an empty one. On a full disk it skips the number: the
 * process that writes the first content fails for the same reason, and its error names the disk.
 * @throws SetupError if the folder cannot be made or written, or is another user's; CodedError `host/state-format`
 */
export function openStateFolder(stateDir: string): void {
  makeOwnFolder({ path: stateDir, what: 'state folder', variable: 'VOIDBOX_STATE_DIR' });
  try {
    keepStateFormat(stateDir);
  } catch (error) {
    if (!isDiskFull(error)) throw error;
  }
}
