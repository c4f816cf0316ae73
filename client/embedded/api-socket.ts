import { lstatSync } from 'node:fs';
import { join } from 'node:path';

/** The Unix socket of the HTTP API. Only the owner of the state folder can connect. */
export function locateApiSocket(stateDir: string): string {
  return join(stateDir, 'api.sock');
}

/** Returns the path of the socket if a stack has opened it; null for a stack of a build without the API. */
export function findApiSocket(stateDir: string): string | null {
  const file = locateApiSocket(stateDir);
  return lstatSync(file, { throwIfNoEntry: false })?.isSocket() === true ? file : null;
}
