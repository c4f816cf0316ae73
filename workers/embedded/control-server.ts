/**
 * The supervisor's end of the socket. Only its user can connect, and the supervisor creates the socket again after it
 * was removed.
 */
import { closeSync, constants, lstatSync, openSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { basename } from 'node:path';
import { mostOpenFiles } from '../../setup/machine/require-open-files.ts';
import {
  folderId,
  MOST_COMMANDS,
  parseRequest,
  REQUEST_BYTES,
  socketFile,
  type StackAnswer,
  type StackOp,
} from '../../client/embedded/control.ts';

const LOOK_MS = 500;
const REQUEST_LIMIT_MS = 5_000;
/** After this time, a command has begun to use the stack, or it never will. */
const USE_LIMIT_MS = 15_000;
/** After this time, a rejected command has read the reason. */
const TURN_AWAY_LIMIT_MS = 1_000;

export interface ControlOptions {
  readonly stateDir: string;
  /** `others`: how many commands are about to use the stack. */
  readonly answer: (op: StackOp, others: number) => StackAnswer;
  readonly onProblem: (message: string) => void;
}

interface Connections {
  /** The largest number of connections; further ones are rejected with a reason. */
  readonly most: number;
  readonly all: Set<Socket>;
  /** Those of commands that are about to use the stack. */
  readonly users: Set<Socket>;
}

/**
 * Opens the socket. The caller holds the folder's lock, so an existing socket belongs to no living process and is
 * replaced.
 * @throws Error if the socket cannot be opened
 */
export async function openControl(options: ControlOptions): Promise<{ close(): void }> {
  // Through the descriptor: a socket's path has 107 bytes at most, and a folder may be deeper.
  const folder = openSync(options.stateDir, constants.O_RDONLY | constants.O_DIRECTORY);
  const name = basename(socketFile(options.stateDir));
  const address = `/proc/self/fd/${folder}/${name}`;
  // Half of the files are for the server, the worker and their logs.
  const most = Math.min(MOST_COMMANDS, Math.floor(mostOpenFiles() / 2));
  const connections: Connections = { most, all: new Set(), users: new Set() };
  let server = await listen(address, connections, options);
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
      server = await listen(address, connections, options);
      inode = inodeOf(address);
      problem = '';
      options.onProblem(
        `${socketFile(options.stateDir)} was ${now === null ? 'removed' : 'replaced'} and is there again`,
      );
    } catch (error) {
      // The folder may be gone or closed to this user: report it once, and try again.
      const text = `${socketFile(options.stateDir)}: ${(error as Error).message}`;
      if (text !== problem) options.onProblem(text);
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

async function listen(address: string, connections: Connections, options: ControlOptions): Promise<Server> {
  rmSync(address, { force: true });
  const server = createServer((socket) =>
    (connections.all.size < connections.most ? serve : turnAway)(socket, connections, options),
  );
  const listening = new Promise<void>((resolve, reject) => {
    server.once('listening', resolve);
    server.once('error', reject);
  });
  // The kernel rejects a connection from a process that may not write to the socket. The umask limits that to the user
  // from the first moment on, because Node creates the socket before `listen` returns.
  const before = process.umask(0o177);
  server.listen({ path: address, backlog: MOST_COMMANDS });
  process.umask(before);
  await listening;
  server.on('error', (error) => options.onProblem(error.message));
  return server;
}

/** Answers any request with the status. Without an answer, a command would assume that the stack does not respond. */
function turnAway(socket: Socket, { users }: Connections, options: ControlOptions): void {
  const end = (): void => void socket.destroy();
  socket.on('error', end);
  const answer: StackAnswer = { ...options.answer('status', users.size), inUse: true, busy: true };
  // If the socket closed before its request is read, the command would get an error instead of the answer.
  socket.on('data', () => socket.end()).write(`${JSON.stringify(answer)}\n`);
  setTimeout(end, TURN_AWAY_LIMIT_MS).unref();
}

function serve(socket: Socket, { all, users }: Connections, options: ControlOptions): void {
  let text = '';
  const end = (): void => {
    all.delete(socket);
    users.delete(socket);
    socket.destroy();
  };
  all.add(socket);
  socket.setTimeout(REQUEST_LIMIT_MS, end);
  socket.on('error', end);
  socket.on('close', end);
  socket.setEncoding('utf8').on('data', (part: string) => {
    text += part;
    const line = /^(.*)\n/.exec(text)?.[1];
    if (line === undefined) return text.length > REQUEST_BYTES ? end() : undefined;
    const request = parseRequest(line);
    if (request === null) return end();
    const op = request.folder === folderId(options.stateDir) ? request.op : 'status';
    if (op === 'use') users.add(socket);
    socket.removeAllListeners('data');
    socket.resume();
    const answer = `${JSON.stringify(options.answer(op, users.size))}\n`;
    if (op !== 'use') return void socket.end(answer);
    socket.write(answer);
    setTimeout(end, USE_LIMIT_MS).unref();
  });
}
