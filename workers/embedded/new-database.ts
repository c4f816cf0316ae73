/**
 * The Temporal server makes its tables only where no database lies yet. A first start that is cut off (a full disk, a
 * kill) leaves a file without them, with which no later start succeeds. So a new database counts as unfinished until a
 * server has served from it.
 */
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { databaseFiles } from './server-process.ts';

const MARK = 'temporal.db.unfinished';

/** Before each start of a server. True: an unfinished database was removed. */
export function prepareDatabase(stateDir: string): boolean {
  const mark = join(stateDir, MARK);
  const isUnfinished = existsSync(mark);
  if (isUnfinished) for (const file of databaseFiles(stateDir)) rmSync(file, { force: true });
  else if (!existsSync(databaseFiles(stateDir)[0]!)) writeFileSync(mark, '', { mode: 0o600 });
  return isUnfinished;
}

/** Once a server has served, before any client learns of it: from now on the database holds what was asked of it. */
export function keepDatabase(stateDir: string): void {
  rmSync(join(stateDir, MARK), { force: true });
}
