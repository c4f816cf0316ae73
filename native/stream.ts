/** One connection of a stream operation: a request line, an answer line, then raw bytes in one direction. */
import { Buffer } from 'node:buffer';
import type { Socket } from 'node:net';
import { CodedError } from '../domain/errors/coded-error.ts';
import { ANSWER_LINE_BYTES, errorOfAnswer, type Answer } from './api.ts';
import { startPatientLimit } from './disk-patience.ts';
import { ConnectionError, toError, connectKeeper, parseAnswer, requestLine } from './connection.ts';
import { opWords } from './op-words.ts';

/** How long the answer line may take. The keeper may wait for its guest first, whose silence it ends sooner. */
const ANSWER_LIMIT_MS = 120_000;

export class StreamConnection {
  readonly #socket: Socket;
  readonly #op: string;
  readonly #dir: string;
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #dispose: () => void;
  /** Bytes that came behind a line. */
  #rest: Buffer = Buffer.alloc(0);
  #broken: Error | null = null;

  /**
   * Connects, asks and reads the answer line. `track` gets a function that cuts the stream.
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
    // The reader or writer meets the error; without a listener an idle moment would crash the process.
    socket.on('error', (error) => (this.#broken ??= error));
    const onAbort = (): void => this.#cut(toError(signal.reason));
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    this.#dispose = () => signal.removeEventListener('abort', onAbort);
  }

  /**
   * Raw bytes until the keeper ends the stream. Reads no further ahead than the socket's buffer.
   * @param idleLimitMs time without a byte after which the stream counts as broken; null for streams that may rest
   * @throws ConnectionError when the connection is reset, CodedError `vm/lost` beyond the idle limit
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

  /** The next answer line. @throws ConnectionError when the stream ends before it */
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
   * Writes one chunk; settles when the socket takes more. Memory in flight is one chunk and the socket's buffer.
   * @throws ConnectionError when the keeper went away, CodedError `vm/lost` beyond the idle limit, which ends the stream
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
   * Sends a source and gives the keeper's answer to all of it. Sends no further than an answer that comes
   * earlier: the keeper has refused, or has a tar's end marker and no use for what stands behind it.
   * @param about what the bytes are, for messages, and how many; null where their format tells their end
   * @throws the error of the answer, also where the connection broke over it; ConnectionError; what the source throws
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
        // Where it fails the answer does too, or says why.
        const written = this.write(next.value, limits.idleLimitMs).catch(() => answered);
        await Promise.race([written, answered]);
      }
      if (sizeBytes !== null && sentBytes !== sizeBytes)
        throw new Error(`${what}: the source ended at ${sentBytes} of ${sizeBytes} bytes`);
      this.end();
      return await answer;
    } finally {
      const ended = source.return?.().catch(() => undefined);
      // One that still waits for its next chunk may do so for ever.
      if (!isPulling) await ended;
    }
  }

  /** The connection keeps this process alive no longer. */
  unref(): void {
    this.#socket.unref();
  }

  /** No more bytes from here. */
  end(): void {
    this.#socket.end();
  }

  close(): void {
    this.#dispose();
    this.#socket.destroy();
  }

  /** Whoever reads or writes meets `error`. */
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

  /** Errors of the socket become a ConnectionError; a cut by the owner keeps the owner's reason. */
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
