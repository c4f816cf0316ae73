/** The supervisor's end of the socket for commands. */
import type { Socket } from 'node:net';
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
import { openFolderSocket } from './folder-socket.ts';

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
 * Opens the socket. The caller holds the folder's lock.
 * @throws Error if the socket cannot be opened
 */
export async function openControl(options: ControlOptions): Promise<{ close(): void }> {
  // Half of the files are for the server, the worker and their logs.
  const most = Math.min(MOST_COMMANDS, Math.floor(mostOpenFiles() / 2));
  const connections: Connections = { most, all: new Set(), users: new Set() };
  return await openFolderSocket({
    file: socketFile(options.stateDir),
    backlog: MOST_COMMANDS,
    pauseOnConnect: false,
    onConnection: (socket) =>
      (connections.all.size < connections.most ? serve : turnAway)(socket, connections, options),
    onProblem: options.onProblem,
  });
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
