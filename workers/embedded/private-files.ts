/** Files of the stack are their user's alone, however open the folder is in which they lie. */
import { chmodSync, lstatSync } from 'node:fs';
import { join } from 'node:path';
import { databaseFiles } from './server-process.ts';
import { logsDir, stackFile, stackLockFile } from '../../client/embedded/stack-info.ts';

/** Takes the rights that a shell's umask gave to group and others. By name, because the folder may contain files of others. */
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
    ...['runs', 'artifacts', 'vms', 'skills', 'sessions'].map((name) => join(stateDir, name)),
  ];
  for (const path of [...files, ...folders]) {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined || found.isSymbolicLink() || found.uid !== process.getuid?.()) continue;
    if ((found.mode & 0o077) !== 0) chmodSync(path, found.mode & 0o700);
  }
}
