/**
 * The id of a VM host: made once, kept in the state folder, part of the host's queue name. Runs that were admitted here
 * contain it too. So a lost or damaged file is restored with the same id, and open runs still belong to this host.
 */
import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { hostIdFile, readHostId } from '../../client/vms/this-host.ts';
import { openLocalStore } from '../../store/open-stores.ts';

export function hostId(stateDir: string): string {
  const file = hostIdFile(stateDir);
  const known = readHostId(stateDir);
  const ofRuns = idOfRuns(stateDir, known);
  // If the runs name another id, this one is damaged: a changed letter still makes a valid id.
  if (known !== null && (ofRuns === null || ofRuns === known)) return known;
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  const mine = `${file}.${process.pid}`;
  writeFileSync(mine, `${ofRuns ?? randomBytes(8).toString('hex')}\n`, { mode: 0o600 });
  putAside(stateDir, known);
  try {
    // The link fails if the name exists. If two processes start at once, the first one's id is kept.
    linkSync(mine, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(mine, { force: true });
  }
  const id = readHostId(stateDir);
  if (id === null) throw new Error(`${file} does not hold a host id (letters, digits, "-"): remove it and start again`);
  return id;
}

/**
 * Renames a file that contains no id. Another process may already have done this and written the id, so the file is
 * read again first.
 */
function putAside(stateDir: string, judged: string | null): void {
  if (readHostId(stateDir) !== judged) return;
  const file = hostIdFile(stateDir);
  try {
    renameSync(file, `${file}.damaged`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/**
 * Returns `known` if a run was admitted under it, else the id of the newest admission; null if no admission names one.
 */
function idOfRuns(stateDir: string, known: string | null): string | null {
  let newest: string | null = null;
  for (const id of openLocalStore({ stateDir })?.admittingHosts() ?? []) {
    if (known === null || id === known) return id;
    newest ??= id;
  }
  return newest;
}
