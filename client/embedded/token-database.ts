/** The embedded database of tokens and of the audit log, which a state folder has since its first token. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { askStack } from './control-client.ts';

/** Returns the folder with the data and the socket. Only PostgreSQL and the supervisor write into it. */
export function locateTokenDatabase(stateDir: string): string {
  return join(stateDir, 'postgres');
}

/** Whether the state folder has complete data. Without it, no token exists. */
export function hasTokenDatabase(stateDir: string): boolean {
  return existsSync(join(locateTokenDatabase(stateDir), 'data'));
}

/** Asks the stack to start the database, if there is one: clients of a network then need not wait for it. */
export async function startTokenDatabase(stateDir: string): Promise<void> {
  if (hasTokenDatabase(stateDir)) await askStack(stateDir, 'database');
}
