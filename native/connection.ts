/** Connections to a keeper's socket: one request line, one answer line, and on streams raw bytes after it. */
import { Buffer } from 'node:buffer';
import { open, type FileHandle } from 'node:fs/promises';
import { constants } from 'node:fs';
import { connect as connectSocket, type Socket } from 'node:net';
import { join } from 'node:path';
import { CodedError } from '../domain/errors/coded-error.ts';
import {
  ANSWER_LINE_BYTES,
  API_VERSION,
  REQUEST_LINE_BYTES,
  SOCKET_PATH_BYTES,
  cutText,
  errorOfAnswer,
  isRecord,
  type Answer,
} from './api.ts';
import { opWords } from './op-words.ts';

const SOCKET_NAME = 'k.sock';

/**
 * The connection broke or could not be opened. Only the run directory shows whether the VM is lost. The code is
 * retryable, because the next attempt attaches again if the keeper lives.
 */
export class ConnectionError extends CodedError {
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super('store/io', message, options);
    this.name = 'ConnectionError';
  }
}

/**
 * Connects to the socket of a run directory, however long the folder's path is.
 * @throws ConnectionError, or the signal's reason
 */
export async function connectKeeper(dir: string, signal: AbortSignal): Promise<Socket> {
  signal.throwIfAborted();
  const path = join(dir, SOCKET_NAME);
  let folder: FileHandle | null = null;
  try {
    let address = path;
    if (Buffer.byteLength(path) > SOCKET_PATH_BYTES) {
      folder = await open(dir, constants.O_RDONLY | constants.O_DIRECTORY);
      address = `/proc/self/fd/${folder.fd}/${SOCKET_NAME}`;
    }
    return await connectTo(address, signal);
  } catch (error) {
    signal.throwIfAborted();
    throw new ConnectionError(`cannot connect to ${path}: ${(error as Error).message}`, { cause: error });
  } finally {
    await folder?.close();
  }
}

function connectTo(address: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connectSocket({ path: address, allowHalfOpen: true });
    const onAbort = (): void => void socket.destroy(toError(signal.reason));
    const settle = (): void => {
      signal.removeEventListener('abort', onAbort);
      socket.off('error', onError);
    };
    const onError = (error: Error): void => {
      settle();
      reject(error);
    };
    socket.once('error', onError);
    socket.once('connect', () => {
      settle();
      resolve(socket);
    });
    signal.addEventListener('abort', onAbort, { once: true });
  });
}

/** Formats a request line. @throws CodedError `run/too-large` if the keeper would reject the line for its length */
export function requestLine(id: number, op: string, fields: Readonly<Record<string, unknown>>): string {
  const line = `${JSON.stringify({ v: API_VERSION, id, op, ...fields })}\n`;
  const lengthBytes = Buffer.byteLength(line);
  if (lengthBytes > REQUEST_LINE_BYTES) {
    throw new CodedError(
      'run/too-large',
      `${opWords(op)} needs a request of ${lengthBytes} bytes, at most ${REQUEST_LINE_BYTES} are allowed: pass long arguments and variables as files`,
    );
  }
  return line;
}

/**
 * Parses an answer line.
 * @throws CodedError `vm/protocol` if the line is not an answer
 */
export function parseAnswer(
  line: Buffer,
): { readonly id: number | null; readonly ok: Answer } | { readonly id: number | null; readonly error: unknown } {
  let value: unknown;
  try {
    value = JSON.parse(line.toString('utf8'));
  } catch {
    value = null;
  }
  if (!isRecord(value))
    throw new CodedError(
      'vm/protocol',
      `the keeper answered ${cutText(line.subarray(0, 200).toString('utf8'))}, which is not a JSON object`,
    );
  const id = typeof value['id'] === 'number' ? value['id'] : null;
  if (isRecord(value['ok'])) return { id, ok: value['ok'] };
  return { id, error: value['error'] };
}

/** Splits a byte stream into lines; holds at most one line of `ANSWER_LINE_BYTES`. */
export class LineSplitter {
  #parts: Buffer[] = [];
  #heldBytes = 0;

  /** Returns the lines that `chunk` completes, without their newlines. */
  push(chunk: Buffer): Buffer[] {
    const lines: Buffer[] = [];
    let rest = chunk;
    for (;;) {
      const end = rest.indexOf(0x0a);
      if (end === -1) break;
      lines.push(Buffer.concat([...this.#parts, rest.subarray(0, end)]));
      this.#parts = [];
      this.#heldBytes = 0;
      rest = rest.subarray(end + 1);
    }
    if (rest.length > 0) {
      this.#parts.push(rest);
      this.#heldBytes += rest.length;
      if (this.#heldBytes > ANSWER_LINE_BYTES)
        throw new CodedError('vm/protocol', `the keeper sent a line of more than ${ANSWER_LINE_BYTES} bytes`);
    }
    return lines;
  }
}

interface Pending {
  readonly op: string;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

/** A connection with many concurrent requests, which are matched by their ids. */
export class ControlConnection {
  readonly #socket: Socket;
  readonly #pending = new Map<number, Pending>();
  readonly #lines = new LineSplitter();
  #nextId = 1;
  #failure: Error | null = null;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => this.#onData(chunk));
    socket.on('error', (error) =>
      this.#fail(new ConnectionError(`the connection to the keeper broke: ${error.message}`, { cause: error })),
    );
    socket.on('end', () => this.#fail(new ConnectionError('the keeper closed the connection')));
    socket.on('close', () => this.#fail(new ConnectionError('the connection to the keeper is closed')));
  }

  get isOpen(): boolean {
    return this.#failure === null;
  }

  /**
   * Sends one request, and returns its answer.
   * @throws ConnectionError if the connection breaks, the error of the answer, or the signal's reason
   */
  request(op: string, fields: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(toError(signal.reason));
      if (this.#failure !== null) return reject(this.#failure);
      const id = this.#nextId++;
      const line = requestLine(id, op, fields);
      const onAbort = (): void => settle(() => reject(toError(signal.reason)));
      const settle = (then: () => void): void => {
        this.#pending.delete(id);
        // A connection without an open request must not keep the process alive.
        if (this.#pending.size === 0) this.#socket.unref();
        signal.removeEventListener('abort', onAbort);
        then();
      };
      this.#pending.set(id, {
        op,
        resolve: (answer) => settle(() => resolve(answer)),
        reject: (error) => settle(() => reject(error)),
      });
      signal.addEventListener('abort', onAbort, { once: true });
      this.#socket.ref();
      this.#socket.write(line);
    });
  }

  close(reason: Error): void {
    this.#fail(reason);
  }

  #onData(chunk: Buffer): void {
    try {
      for (const line of this.#lines.push(chunk)) this.#onLine(line);
    } catch (error) {
      this.#fail(toError(error));
    }
  }

  #onLine(line: Buffer): void {
    const answer = parseAnswer(line);
    if (answer.id === null) {
      // The keeper could not parse a request, so it cannot name the request's id.
      if ('error' in answer) throw errorOfAnswer(answer.error, 'the keeper refused a request');
      throw new CodedError('vm/protocol', 'the keeper sent an answer without an id');
    }
    // The caller of this answer's request has given up.
    const pending = this.#pending.get(answer.id);
    if (pending === undefined) return;
    if ('ok' in answer) pending.resolve(answer.ok);
    else pending.reject(errorOfAnswer(answer.error, pending.op));
  }

  #fail(error: Error): void {
    if (this.#failure !== null) return;
    this.#failure = error;
    this.#socket.destroy();
    for (const pending of this.#pending.values()) pending.reject(error);
  }
}

export function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}
