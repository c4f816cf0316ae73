import { join } from 'node:path';

/** The Unix socket of the HTTP API. Only the owner of the state folder can connect. */
export function locateApiSocket(stateDir: string): string {
  return join(stateDir, 'api.sock');
}
