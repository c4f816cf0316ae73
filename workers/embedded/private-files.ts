/** Restricts the files of the stack to their user, even if others can read their folder. */
import { chmodSync, lstatSync } from 'node:fs';
import { join } from 'node:path';
import { databaseFiles } from './server-process.ts';
import { logsDir, stackFile, stackLockFile } from '../../client/embedded/stack-info.ts';

/**
 * Removes the rights that a shell's umask gave to group and others. It names each file, because the folder may contain
 * files of others.
 */
export function restrictToOwner(stateDir: string): void {
  const files = [
    ...databaseFiles(stateDir),
    stackFile(stateDir),
    stackLockFile(stateDir),
    join(stateDir, 'host-id'),
    join(stateDir, 'skills.json'),
  ];
  const folders = [
    logsDir(stateDir),
    ...['runs', 'artifacts', 'vms', 'skills', 'sessions', 'postgres'].map((name) => join(stateDir, name)),
  ];
  for (const path of [...files, ...folders]) {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined || found.isSymbolicLink() || found.uid !== process.getuid?.()) continue;
    if ((found.mode & 0o077) !== 0) chmodSync(path, found.mode & 0o700);
  }
}
