/** A command's end of the supervisor's socket. Light: many commands only look whether the stack runs. */
import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import {
  ANSWER_BYTES,
  folderId,
  parseAnswer,
  requestText,
  socketFile,
  type StackAnswer,
  type StackOp,
  type StackRequest,
} from './control.ts';

const ANSWER_LIMIT_MS = 3_000;
/** Long enough for a command to connect and start its work; the supervisor has a limit too. */
const USE_MS = 10_000;
/** Linux's O_PATH, which Node does not name: the file itself, not opened. */
const O_PATH = 0o10000000;

export type StackReply =
  | { readonly kind: 'answer'; readonly answer: StackAnswer }
  /** The socket does not exist, or no process listens on it. */
  | { readonly kind: 'nobody' }
  /** A process listens but does not answer, or does not answer as a stack of this folder and user. */
  | { readonly kind: 'silent' };

/** Asks the stack of a folder. Accepts only an answer of a process of this user that names this folder. */
export async function askStack(stateDir: string, op: StackOp): Promise<StackReply> {
  let file: number;
  try {
    file = openSync(socketFile(stateDir), O_PATH | constants.O_NOFOLLOW);
  } catch {
    return { kind: 'nobody' };
  }
  try {
    // Check and connect to the same file through its descriptor: the path may change in between. This path is also
    // short.
    const found = fstatSync(file);
    if (!found.isSocket() || found.uid !== process.getuid?.()) return { kind: 'silent' };
    const folder = folderId(stateDir) ?? '';
    const line = await exchange(`/proc/self/fd/${file}`, { op, folder });
    if (line === null) return { kind: 'nobody' };
    const answer = parseAnswer(line);
    return answer === null || answer.folder !== folder ? { kind: 'silent' } : { kind: 'answer', answer };
  } finally {
    closeSync(file);
  }
}

/** Sends the request and returns the line of the answer; '' if none arrives in time; null if no process listens. */
function exchange(address: string, request: StackRequest): Promise<string | null> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect({ path: address });
    const end = (result: string | null): void => {
      clearTimeout(limit);
      if (request.op === 'use' && result !== null && result !== '') hold(socket);
      else socket.destroy();
      resolve(result);
    };
    const limit = setTimeout(() => end(''), ANSWER_LIMIT_MS);
    socket.once('error', (error: NodeJS.ErrnoException) =>
      end(error.code === 'ECONNREFUSED' || error.code === 'ENOENT' ? null : ''),
    );
    socket.once('close', () => end(''));
    socket.setEncoding('utf8').on('data', (part: string) => {
      text += part;
      const at = text.indexOf('\n');
      if (at >= 0) end(text.slice(0, at));
      else if (text.length > ANSWER_BYTES) end('');
    });
    socket.write(requestText(request));
  });
}

/** The stack is in use as long as the connection is there, which keeps no process alive. */
function hold(socket: Socket): void {
  socket.removeAllListeners('data').removeAllListeners('close');
  socket.on('error', () => socket.destroy());
  socket.resume();
  socket.unref();
  setTimeout(() => socket.destroy(), USE_MS).unref();
}
