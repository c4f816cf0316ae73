/** Listens on a Unix socket to which only this user can connect. */
import { randomBytes } from 'node:crypto';
import { lstatSync, renameSync, rmSync, type Stats, statSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { withLock } from '../setup/lock.ts';
import { SetupError } from '../setup/setup-error.ts';

const BACKLOG = 511;
const ANSWER_MS = 2_000;
const STICKY = 0o1000;
const FOREIGN_WRITE = 0o022;

/**
 * Listens on the path. A socket that no process serves is replaced.
 * @param lockFile  is locked until then, so that two that begin at once do not replace each other's socket
 * @throws SetupError if the folder is not safe, or if the path has something else
 */
export async function listenOnSocket(
  path: string,
  lockFile: string,
  onConnection: (socket: Socket) => void,
): Promise<Server> {
  checkFolder(dirname(path));
  return await withLock(
    lockFile,
    async () => {
      await removeStale(path);
      try {
        return await listen(path, onConnection);
      } catch (error) {
        throw createListenError(path, (error as Error).message, error);
      }
    },
    () => undefined,
  );
}

/** @throws SetupError if another user could replace the socket */
function checkFolder(folder: string): void {
  const remedy = 'Give a path in a folder of your own: --listen unix:PATH';
  let found: Stats;
  try {
    found = statSync(folder);
  } catch (error) {
    throw new SetupError(`the folder ${folder} of the socket cannot be used: ${(error as Error).message}`, remedy);
  }
  if (!found.isDirectory()) throw new SetupError(`${folder}, which should hold the socket, is not a folder`, remedy);
  if (found.uid !== 0 && found.uid !== process.getuid?.())
    throw new SetupError(`the folder ${folder} of the socket belongs to another user`, remedy);
  if ((found.mode & FOREIGN_WRITE) !== 0 && (found.mode & STICKY) === 0)
    throw new SetupError(
      `the folder ${folder} of the socket has the mode ${(found.mode & 0o7777).toString(8)}, so other users could replace the socket`,
      `${remedy}\nOr take the right to write from others: chmod go-w FOLDER`,
    );
}

/** @throws SetupError if the path has anything but a socket of this user that no process serves */
async function removeStale(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw createListenError(path, 'the path exists and is not a socket');
  if (found.uid !== process.getuid?.()) throw createListenError(path, 'the socket belongs to another user');
  if (await isServed(path)) throw createServedError(path);
  rmSync(path, { force: true });
}

/** Whether a process accepts connections. One that does not answer counts, because it may be busy. */
function isServed(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    const end = (isAlive: boolean): void => {
      clearTimeout(limit);
      socket.destroy();
      resolve(isAlive);
    };
    const limit = setTimeout(() => end(true), ANSWER_MS);
    socket.once('connect', () => end(true));
    socket.once('error', (error: NodeJS.ErrnoException) => end(!['ECONNREFUSED', 'ENOENT'].includes(error.code ?? '')));
  });
}

/** The longest path of a socket in Linux. */
const MOST_PATH_BYTES = 107;

/**
 * When the server closes, Node removes the path that it listened on, also if another service has the path. So the server
 * listens on a name of its own, which is renamed. A path that leaves no room for this name is used directly.
 */
async function listen(path: string, onConnection: (socket: Socket) => void): Promise<Server> {
  const own = join(dirname(path), `.${randomBytes(3).toString('hex')}`);
  if (Buffer.byteLength(own) > MOST_PATH_BYTES) return await bind(path, onConnection);
  const server = await bind(own, onConnection);
  const { dev, ino } = lstatSync(own);
  const close = server.close.bind(server);
  server.close = (onClosed) => {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found?.ino === ino && found.dev === dev) rmSync(path, { force: true });
    return close(onClosed);
  };
  try {
    renameSync(own, path);
  } catch (error) {
    close();
    throw error;
  }
  return server;
}

async function bind(path: string, onConnection: (socket: Socket) => void): Promise<Server> {
  const server = createServer({ pauseOnConnect: true }, onConnection);
  const listening = new Promise<void>((resolve, reject) => {
    server.once('listening', resolve);
    server.once('error', reject);
  });
  // The umask limits the socket to this user from the first moment on: Node creates it before `listen` returns.
  const before = process.umask(0o177);
  server.listen({ path, backlog: BACKLOG });
  process.umask(before);
  await listening;
  return server;
}

function createServedError(path: string): SetupError {
  return new SetupError(
    `another process serves the socket ${path}`,
    'End it, or give another path: --listen unix:PATH',
  );
}

function createListenError(path: string, why: string, cause?: unknown): SetupError {
  return new SetupError(
    `the API does not listen on the socket ${path}: ${why}`,
    'Give another path: --listen unix:PATH',
    { cause },
  );
}
