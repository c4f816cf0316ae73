/**
 * A Unix socket in the state folder. Only its user can connect, and the supervisor creates the socket again after it
 * was removed.
 */
import { closeSync, constants, lstatSync, openSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { basename, dirname } from 'node:path';

const LOOK_MS = 500;

export interface FolderSocketOptions {
  readonly file: string;
  /** The most connections that wait to be accepted. */
  readonly backlog: number;
  /** Whether another process reads the connection, so that this one must not. */
  readonly pauseOnConnect: boolean;
  readonly onConnection: (socket: Socket) => void;
  readonly onProblem: (message: string) => void;
}

/**
 * Opens the socket. The caller holds the folder's lock, so an existing socket belongs to no living process and is
 * replaced.
 * @throws Error if the socket cannot be opened
 */
export async function openFolderSocket(options: FolderSocketOptions): Promise<{ close(): void }> {
  const { file, onProblem } = options;
  // Through the descriptor: a socket's path has 107 bytes at most, and a folder may be deeper.
  const folder = openSync(dirname(file), constants.O_RDONLY | constants.O_DIRECTORY);
  const address = `/proc/self/fd/${folder}/${basename(file)}`;
  let server = await listen(address, options);
  let inode = inodeOf(address);
  let busy = false;
  let problem = '';
  const renewSocket = async (): Promise<void> => {
    if (busy) return;
    busy = true;
    try {
      const now = inodeOf(address);
      if (now !== null && now === inode) return;
      server.close();
      server = await listen(address, options);
      inode = inodeOf(address);
      problem = '';
      onProblem(`${file} was ${now === null ? 'removed' : 'replaced'} and is there again`);
    } catch (error) {
      // The folder may be gone or closed to this user: report it once, and try again.
      const text = `${file}: ${(error as Error).message}`;
      if (text !== problem) onProblem(text);
      problem = text;
    } finally {
      busy = false;
    }
  };
  const timer = setInterval(() => void renewSocket(), LOOK_MS);
  return {
    close() {
      clearInterval(timer);
      server.close();
      rmSync(address, { force: true });
      closeSync(folder);
    },
  };
}

function inodeOf(path: string): bigint | null {
  return lstatSync(path, { bigint: true, throwIfNoEntry: false })?.ino ?? null;
}

async function listen(address: string, options: FolderSocketOptions): Promise<Server> {
  const { backlog, pauseOnConnect, onConnection, onProblem } = options;
  rmSync(address, { force: true });
  const server = createServer({ pauseOnConnect }, onConnection);
  const listening = new Promise<void>((resolve, reject) => {
    server.once('listening', resolve);
    server.once('error', reject);
  });
  // The kernel rejects a connection from a process that may not write to the socket. The umask limits that to the user
  // from the first moment on, because Node creates the socket before `listen` returns.
  const before = process.umask(0o177);
  server.listen({ path: address, backlog });
  process.umask(before);
  await listening;
  server.on('error', (error) => onProblem(error.message));
  return server;
}
