/** The connection of a client to its service: one request, its limits, and further tries. */
import { pause, waitWithin } from './bounded-wait.ts';
import { ApiError, ConnectionError, describeConnection, ForeignAnswerError, VoidboxError } from './errors.ts';
import type { ClientLimits } from './limits.ts';
import type { Target } from './options.ts';
import { parseObject, readRefusal } from './problem.ts';

export interface ServiceRequest {
  readonly method?: 'DELETE' | 'GET' | 'HEAD' | 'POST' | 'PUT';
  /** The parts of the path below `/api/v1`, each any text. */
  readonly path: readonly string[];
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: unknown;
  readonly bytes?: Uint8Array;
  readonly signal?: AbortSignal | undefined;
  /** The time that the request asks the service to wait. */
  readonly waitMs?: number;
  /** Sent twice, it changes as much as sent once. By default only reads are. */
  readonly isRepeatable?: boolean;
  /** A status of a failure whose answer is no problem. */
  readonly accepts?: number;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** The bytes of the body. The end of the iteration ends the connection. */
  readonly bytes: AsyncGenerator<Uint8Array>;
}

const ROOT = '/api/v1';
/** Answers of proxies whose service is away. */
const AWAY = new Set([502, 503, 504]);

export class Connection {
  readonly limits: ClientLimits;
  readonly #target: Target;

  constructor(target: Target, limits: ClientLimits) {
    this.#target = target;
    this.limits = limits;
  }

  get name(): string {
    return this.#target.origin;
  }

  /**
   * Sends a request once, and returns the answer when its body begins.
   * @throws ApiError, ConnectionError, ForeignAnswerError, or the reason of the signal
   */
  async send(request: ServiceRequest): Promise<Answer> {
    const { signal, waitMs = 0 } = request;
    signal?.throwIfAborted();
    const own = new AbortController();
    const timeMs = this.limits.answerMs + waitMs;
    const onTimeout = (): Error => new ConnectionError(`${this.name} does not answer within ${timeMs / 1_000} s`);
    // Wrong arguments of the caller are no failure of the connection.
    const url = this.#writeUrl(request);
    const init = this.#writeInit(request, own.signal);
    try {
      const response = await waitWithin(this.#target.send(url, init), { timeMs, signal, onTimeout });
      const bytes = this.#readBytes(response, own, signal);
      const isAccepted = response.status === request.accepts && isJson(response.headers);
      if (isAccepted || (response.status >= 200 && response.status < 300))
        return { status: response.status, headers: response.headers, bytes };
      const text = await this.readText({ bytes }, this.limits.problemBytes);
      throw readRefusal(this.name, response.status, response.headers, text);
    } catch (error) {
      own.abort();
      throw this.#toClientError(error, signal);
    }
  }

  /** Sends a request that has an object of JSON as its answer. */
  async call(request: ServiceRequest): Promise<{ readonly status: number; readonly value: object }> {
    return await this.retry(request, async () => {
      const answer = await this.send(request);
      const value = parseObject(await this.readText(answer, this.limits.jsonBytes));
      if (value === null) throw new ForeignAnswerError(`${this.name} does not answer as Voidbox does`, answer.status);
      return { status: answer.status, value };
    });
  }

  /** @throws ForeignAnswerError for a body of more than `mostBytes` */
  async readText({ bytes }: Pick<Answer, 'bytes'>, mostBytes: number): Promise<string> {
    return new TextDecoder().decode(await this.readAll({ bytes }, mostBytes));
  }

  /** @throws ForeignAnswerError for a body of more than `mostBytes`, or one that has no end in time */
  async readAll({ bytes }: Pick<Answer, 'bytes'>, mostBytes: number): Promise<Uint8Array<ArrayBuffer>> {
    const chunks: Uint8Array[] = [];
    const { wholeMs } = this.limits;
    const endMs = performance.now() + wholeMs;
    let size = 0;
    for await (const chunk of bytes) {
      size += chunk.length;
      // A service that sends a byte now and then is never silent.
      if (performance.now() > endMs)
        throw new ForeignAnswerError(`an answer of ${this.name} does not end within ${wholeMs / 1_000} s`, 200);
      if (size > mostBytes)
        throw new ForeignAnswerError(`an answer of ${this.name} has more than ${mostBytes} bytes`, 200);
      chunks.push(chunk);
    }
    const all = new Uint8Array(size);
    let at = 0;
    for (const chunk of chunks) {
      all.set(chunk, at);
      at += chunk.length;
    }
    return all;
  }

  /** Tries again after pauses: after 429 always, after a lost connection if the request is repeatable. */
  async retry<T>({ method = 'GET', isRepeatable, signal }: ServiceRequest, attempt: () => Promise<T>): Promise<T> {
    const mayRepeat = isRepeatable ?? (method === 'GET' || method === 'HEAD');
    for (let tried = 0; ; tried += 1) {
      try {
        return await attempt();
      } catch (error) {
        const pauseMs = this.limits.pausesMs[tried];
        const atLeastMs = readPause(error, mayRepeat);
        if (pauseMs === undefined || atLeastMs === null || atLeastMs > this.limits.retryAfterMs) throw error;
        await pause(Math.max(shortenByChance(pauseMs), atLeastMs), signal);
      }
    }
  }

  #writeUrl({ path, query = {} }: ServiceRequest): string {
    const pairs = Object.entries(query).flatMap(([name, value]) =>
      value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
    );
    const search = pairs.length === 0 ? '' : `?${pairs.join('&')}`;
    return `${this.#target.origin}${ROOT}/${path.map(encodeSegment).join('/')}${search}`;
  }

  #writeInit({ method = 'GET', headers = {}, json, bytes }: ServiceRequest, signal: AbortSignal): RequestInit {
    const { token } = this.#target;
    return {
      method,
      signal,
      // A token never follows a redirect, and no cookie or cache takes part.
      redirect: 'manual',
      credentials: 'omit',
      cache: 'no-store',
      headers: {
        ...headers,
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
        ...(bytes === undefined ? {} : { 'content-type': 'application/octet-stream' }),
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
      ...(bytes === undefined ? {} : { body: bytes as Uint8Array<ArrayBuffer> }),
    };
  }

  async *#readBytes(response: Response, own: AbortController, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    const reader = response.body?.getReader();
    const timeMs = this.limits.silenceMs;
    const onTimeout = (): Error => new ConnectionError(`${this.name} sends nothing for ${timeMs / 1_000} s`);
    try {
      while (reader !== undefined) {
        const { done, value } = await waitWithin(reader.read(), { timeMs, signal, onTimeout });
        if (done) return;
        yield value;
      }
    } catch (error) {
      throw this.#toClientError(error, signal);
    } finally {
      own.abort();
      reader?.cancel().catch(() => undefined);
    }
  }

  #toClientError(error: unknown, signal?: AbortSignal): unknown {
    if (signal?.aborted === true) return signal.reason;
    return error instanceof VoidboxError ? error : describeConnection(this.name, error);
  }
}

function isJson(headers: Headers): boolean {
  return (headers.get('content-type') ?? '').startsWith('application/json');
}

/** @returns the least pause before the next try; null: no further try */
export function readPause(error: unknown, mayRepeat: boolean): number | null {
  if (error instanceof ApiError && error.status === 429) return error.retryAfterMs ?? 1_000;
  if (!mayRepeat) return null;
  if (error instanceof ConnectionError) return error.isLasting ? null : 0;
  return error instanceof ForeignAnswerError && AWAY.has(error.status ?? 0) ? 0 : null;
}

/** Clients that lost their service together do not come back together. */
export function shortenByChance(timeMs: number): number {
  return timeMs * (0.5 + Math.random() / 2);
}

/** @throws TypeError for a text that a URL cannot contain as one part of its path */
function encodeSegment(text: string): string {
  if (typeof text !== 'string' || text === '' || text === '.' || text === '..')
    throw new TypeError(`${JSON.stringify(text)} cannot be read through the HTTP API: a URL cannot contain it.`);
  try {
    return encodeURIComponent(text);
  } catch {
    throw new TypeError('an id with a lone surrogate cannot be read through the HTTP API.');
  }
}
