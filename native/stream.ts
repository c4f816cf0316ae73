/** One connection of a stream operation: a request line, an answer line, then raw bytes in one direction. */
import { Buffer } from 'node:buffer';
import type { Socket } from 'node:net';
import { CodedError } from '../domain/errors/coded-error.ts';
import { ANSWER_LINE_BYTES, errorOfAnswer, type Answer } from './api.ts';
import { startPatientLimit } from './disk-patience.ts';
import { ConnectionError, toError, connectKeeper, parseAnswer, requestLine } from './connection.ts';
import { opWords } from './op-words.ts';

/** The limit for the answer line. The keeper may first wait for its guest, whose silence it ends sooner. */
const ANSWER_LIMIT_MS = 120_000;

export class StreamConnection {
  readonly #socket: Socket;
  readonly #op: string;
  readonly #dir: string;
  readonly #chunks: AsyncIterator<Buffer>;
  #dispose: () => void;
  /** Bytes that arrived after a line. */
  #rest: Buffer = Buffer.alloc(0);
  #broken: Error | null = null;

  /**
   * Connects, sends the request and reads the answer line. `track` receives a function that cuts the stream.
   * @throws ConnectionError, the error of the answer, or the signal's reason
   */
  static async open(
    dir: string,
    op: string,
    fields: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<{ readonly stream: StreamConnection; readonly answer: Answer }> {
    const line = requestLine(1, op, fields);
    const stream = new StreamConnection(await connectKeeper(dir, signal), dir, op, signal);
    try {
      stream.#socket.write(line);
      return { stream, answer: await stream.readAnswer(ANSWER_LIMIT_MS) };
    } catch (error) {
      stream.close();
      throw error;
    }
  }

  constructor(socket: Socket, dir: string, op: string, signal: AbortSignal) {
    this.#dir = dir;
    this.#socket = socket;
    this.#op = op;
    this.#chunks = socket.iterator({ destroyOnReturn: false })[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    // The reader or writer gets the error; without a listener, an error between two calls would crash the process.
    socket.on('error', (error) => (this.#broken ??= error));
    const onAbort = (): void => this.#cut(toError(signal.reason));
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    this.#dispose = () => signal.removeEventListener('abort', onAbort);
  }

  /**
   * Yields raw bytes until the keeper ends the stream. Reads no further ahead than the socket's buffer.
   * @param idleLimitMs  the time without a byte after which the stream counts as broken; null for streams that may
   * pause
   * @throws ConnectionError if the connection is reset, CodedError `vm/lost` beyond the idle limit
   */
  async *bytes(idleLimitMs: number | null): AsyncGenerator<Uint8Array, void, void> {
    try {
      if (this.#rest.length > 0) {
        const rest = this.#rest;
        this.#rest = Buffer.alloc(0);
        yield rest;
      }
      for (;;) {
        const chunk = await this.#next(idleLimitMs);
        if (chunk === null) return;
        yield chunk;
      }
    } finally {
      this.close();
    }
  }

  /** Reads the next answer line. @throws ConnectionError if the stream ends before it */
  async readAnswer(limitMs: number): Promise<Answer> {
    const parts: Buffer[] = [];
    let heldBytes = 0;
    let chunk: Buffer | null = this.#rest.length > 0 ? this.#rest : await this.#next(limitMs);
    this.#rest = Buffer.alloc(0);
    for (;;) {
      if (chunk === null)
        throw new ConnectionError(`${opWords(this.#op)}: the VM's keeper closed the connection without an answer`);
      const end = chunk.indexOf(0x0a);
      if (end !== -1) {
        parts.push(chunk.subarray(0, end));
        this.#rest = chunk.subarray(end + 1);
        const answer = parseAnswer(Buffer.concat(parts));
        if ('error' in answer) throw errorOfAnswer(answer.error, this.#op);
        return answer.ok;
      }
      parts.push(chunk);
      heldBytes += chunk.length;
      if (heldBytes > ANSWER_LINE_BYTES)
        throw new CodedError(
          'vm/protocol',
          `${opWords(this.#op)}: the VM's keeper answered with more than ${ANSWER_LINE_BYTES} bytes without a newline`,
        );
      chunk = await this.#next(limitMs);
    }
  }

  /**
   * Writes one chunk; resolves once the socket accepts more. Memory in flight is one chunk and the socket's buffer.
   * @throws ConnectionError if the keeper disconnected, CodedError `vm/lost` beyond the idle limit, which ends the
   * stream
   */
  async write(chunk: Uint8Array, idleLimitMs: number): Promise<void> {
    if (chunk.length === 0) return;
    if (this.#broken !== null || this.#socket.destroyed) throw this.#failure();
    if (this.#socket.write(chunk)) return;
    await new Promise<void>((resolve, reject) => {
      const settle = (then: () => void): void => {
        stopLimit();
        this.#socket.off('drain', onDrain);
        this.#socket.off('close', onClose);
        then();
      };
      const onDrain = (): void => settle(resolve);
      const onClose = (): void => settle(() => reject(this.#failure()));
      const stopLimit = startPatientLimit(this.#dir, idleLimitMs, () => this.#cut(this.#stall(idleLimitMs)));
      this.#socket.once('drain', onDrain);
      this.#socket.once('close', onClose);
    });
  }

  /**
   * Sends a source, and returns the keeper's answer to all of it. Stops at an earlier answer: then the keeper has
   * rejected the transfer, or has found a tar's end marker and ignores later bytes.
   * @param about  the description of the bytes for messages, and their number; null if their format marks their end
   * @throws the error of the answer, also if the connection broke because of it; ConnectionError; the source's error
   */
  async upload(
    bytes: AsyncIterable<Uint8Array>,
    about: { readonly what: string; readonly sizeBytes: number | null },
    limits: { readonly idleLimitMs: number; readonly answerLimitMs: number },
  ): Promise<Answer> {
    const { what, sizeBytes } = about;
    const answer = this.readAnswer(limits.answerLimitMs);
    let isAnswered = false;
    const answered = answer.then(
      () => void (isAnswered = true),
      () => void (isAnswered = true),
    );
    const source = bytes[Symbol.asyncIterator]();
    let isPulling = false;
    let sentBytes = 0;
    try {
      for (;;) {
        isPulling = true;
        const pulled = source.next().finally(() => (isPulling = false));
        pulled.catch(() => undefined);
        const next = await Promise.race([pulled, answered]);
        if (isAnswered || next === undefined) return await answer;
        if (next.done === true) break;
        sentBytes += next.value.length;
        if (sizeBytes !== null && sentBytes > sizeBytes)
          throw new Error(`${what}: the source has more than its ${sizeBytes} bytes`);
        // If the write fails, the answer fails too, or explains the failure.
        const written = this.write(next.value, limits.idleLimitMs).catch(() => answered);
        await Promise.race([written, answered]);
      }
      if (sizeBytes !== null && sentBytes !== sizeBytes)
        throw new Error(`${what}: the source ended at ${sentBytes} of ${sizeBytes} bytes`);
      this.end();
      return await answer;
    } finally {
      const ended = source.return?.().catch(() => undefined);
      // A source that still waits for its next chunk may wait for ever.
      if (!isPulling) await ended;
    }
  }

  /** The connection no longer keeps this process alive. */
  unref(): void {
    this.#socket.unref();
  }

  /** Ends this client's half of the stream. */
  end(): void {
    this.#socket.end();
  }

  close(): void {
    this.#dispose();
    this.#socket.destroy();
  }

  /** Calls `act` when this client closes the stream. */
  onClose(act: () => void): void {
    const dispose = this.#dispose;
    this.#dispose = () => {
      dispose();
      act();
    };
  }

  /** Makes pending and later reads and writes throw `error`. */
  #cut(error: Error): void {
    this.#broken ??= error;
    this.#socket.destroy(this.#broken);
  }

  async #next(limitMs: number | null): Promise<Buffer | null> {
    if (this.#broken !== null) throw this.#failure();
    const stopLimit =
      limitMs === null ? null : startPatientLimit(this.#dir, limitMs, () => this.#cut(this.#stall(limitMs)));
    try {
      const next = await this.#chunks.next();
      return next.done === true ? null : next.value;
    } catch (error) {
      this.#broken ??= toError(error);
      throw this.#failure();
    } finally {
      stopLimit?.();
    }
  }

  #stall(limitMs: number): Error {
    return new CodedError('vm/lost', `${opWords(this.#op)}: not a byte moved in ${limitMs} ms`);
  }

  /** Converts errors of the socket to a ConnectionError; a cut by the owner keeps the owner's reason. */
  #failure(): Error {
    const error = this.#broken ?? new Error('closed');
    const isSocketError =
      typeof (error as NodeJS.ErrnoException).code === 'string' &&
      (error as NodeJS.ErrnoException).syscall !== undefined;
    const isPremature = (error as NodeJS.ErrnoException).code === 'ERR_STREAM_PREMATURE_CLOSE' || this.#broken === null;
    if (isSocketError || isPremature)
      return new ConnectionError(`${opWords(this.#op)}: the connection to the keeper broke (${error.message})`, {
        cause: error,
      });
    return error;
  }
}
