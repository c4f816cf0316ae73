import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** Histories of the embedded server, in the state folder. */
export const DATABASE = 'temporal.db';

/** Whether an embedded server ever ran on this state folder. */
export function hasDatabase(stateDir: string): boolean {
  return existsSync(join(stateDir, DATABASE));
}
