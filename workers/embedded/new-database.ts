/**
 * The Temporal server creates its tables only if no database exists. If a full disk or a kill interrupts the first
 * start, a file without tables stays, and every later start fails. So a new database counts as unfinished until a
 * server has served from it.
 */
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { databaseFiles } from './server-process.ts';

const MARK = 'temporal.db.unfinished';

/** Call it before each start of a server. Returns true if it removed an unfinished database. */
export function prepareDatabase(stateDir: string): boolean {
  const mark = join(stateDir, MARK);
  const isUnfinished = existsSync(mark);
  if (isUnfinished) for (const file of databaseFiles(stateDir)) rmSync(file, { force: true });
  else if (!existsSync(databaseFiles(stateDir)[0]!)) writeFileSync(mark, '', { mode: 0o600 });
  return isUnfinished;
}

/**
 * Marks the database as finished. Call it once a server has served and before a client learns of it, because clients
 * then write to it.
 */
export function keepDatabase(stateDir: string): void {
  rmSync(join(stateDir, MARK), { force: true });
}
