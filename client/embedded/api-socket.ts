import { closeSync, constants, fstatSync, lstatSync, openSync } from 'node:fs';
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

/** Linux's O_PATH, which Node does not name: the file itself, not opened. */
const O_PATH = 0o10000000;

/**
 * Opens the path to the socket, whose length the kernel limits, and checks that the socket is one of this user.
 * @returns null if the socket does not exist, or belongs to another user
 */
export function openApiSocket(stateDir: string): { readonly path: string; close(): void } | null {
  let file: number;
  try {
    file = openSync(locateApiSocket(stateDir), O_PATH | constants.O_NOFOLLOW);
  } catch {
    return null;
  }
  const found = fstatSync(file);
  if (!found.isSocket() || found.uid !== process.getuid?.()) {
    closeSync(file);
    return null;
  }
  return { path: `/proc/self/fd/${file}`, close: () => closeSync(file) };
}
