/** The connection to the HTTP API of a service on another machine. */
import { Agent as HttpAgent, type ClientRequest, type IncomingMessage, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import type { RequestOptions } from 'node:https';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceSettings } from '../domain/access/service-settings.ts';
import { ConnectionError, type ConnectionProblem, isServiceError, readProblem, ServiceError } from './service-error.ts';

export interface ServiceRequest {
  readonly method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE';
  /** The parts of the path below `/api/v1`, each any text. */
  readonly path: readonly string[];
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: RequestBody;
  readonly signal?: AbortSignal | undefined;
  /** The time until the answer begins; by default 30 s. */
  readonly answerMs?: number;
}

export type RequestBody =
  | { readonly json: unknown }
  | { readonly bytes: AsyncIterable<Uint8Array>; readonly sizeBytes: number };

const clients = new WeakMap<ServiceSettings, ServiceClient>();

/** Returns the same client for the same settings: stores and changes share its connections. */
export function connectService(settings: ServiceSettings): ServiceClient {
  const client = clients.get(settings) ?? new ServiceClient(settings);
  clients.set(settings, client);
  return client;
}

/** The service sends a comment each 15 s, also if nothing happens. */
const SILENCE_MS = 45_000;
const ANSWER_MS = 30_000;
/** For an answer that is read as a whole: a service that sends a byte now and then is not silent. */
const MOST_ANSWER_MS = 600_000;
/** The pauses before further tries of a read. */
const PAUSES_MS = [200, 500, 1_000, 2_000];
/** A longer `Retry-After` is not waited for. */
const MOST_RETRY_AFTER_MS = 5_000;
const MOST_JSON_BYTES = 64 * 1024 * 1024;
const MOST_PROBLEM_BYTES = 1024 * 1024;
const ROOT = '/api/v1';

export class ServiceClient {
  readonly name: string;
  readonly #settings: ServiceSettings;
  readonly #agent: HttpAgent;
  readonly #listeners = new Set<(message: string) => void>();

  constructor(settings: ServiceSettings) {
    this.name = settings.name;
    this.#settings = settings;
    const options = { keepAlive: true, maxSockets: 16 };
    this.#agent =
      settings.place.kind === 'tcp' && settings.place.isTls ? new HttpsAgent(options) : new HttpAgent(options);
  }

  /**
   * Sends a request once, and returns the answer when its body begins.
   * @throws ConnectionError, ServiceError or CodedError by the problem of the answer
   */
  async send(request: ServiceRequest): Promise<IncomingMessage> {
    const { signal, body } = request;
    if (signal?.aborted === true) throw signal.reason;
    const sent = this.#open(request);
    const answered = this.#waitForAnswer(sent, request);
    const source = watchSource(body);
    // The answer, or the failure of the connection, says why the body was not sent.
    writeBody(sent, source.body).catch(() => undefined);
    const answer = await answered.catch((error: unknown) => {
      throw source.failure() ?? error;
    });
    const status = answer.statusCode ?? 0;
    if (status >= 200 && status < 300) return answer;
    const mediaType = answer.headers['content-type'] ?? '';
    const text = Buffer.concat(await this.#collect(answer, MOST_PROBLEM_BYTES)).toString();
    throw withRetryAfter(readProblem(this.name, status, mediaType, text), answer.headers['retry-after']);
  }

  /** Like `send`, for a read: a connection that fails is tried again after pauses. */
  async read(request: ServiceRequest): Promise<IncomingMessage> {
    return await this.retry(() => this.send(request), request.signal);
  }

  /** Reads an answer of JSON. */
  async readJson(request: ServiceRequest): Promise<unknown> {
    return await this.retry(async () => await this.parse(await this.send(request)), request.signal);
  }

  /** Sends a change once, and returns its answer of JSON. */
  async change(request: ServiceRequest): Promise<unknown> {
    return await this.parse(await this.send({ method: 'POST', ...request }));
  }

  async parse(answer: IncomingMessage): Promise<unknown> {
    const text = Buffer.concat(await this.#collect(answer, MOST_JSON_BYTES)).toString();
    try {
      return JSON.parse(text) as unknown;
    } catch {
      throw createForeignError(this.name);
    }
  }

  /**
   * Yields the bytes of an answer.
   * @throws ConnectionError if they end too early
   */
  async *readBytes(answer: IncomingMessage): AsyncGenerator<Uint8Array> {
    const timer = setTimeout(() => answer.destroy(new Error('it sent nothing')), SILENCE_MS);
    try {
      for await (const chunk of answer) {
        timer.refresh();
        yield chunk as Uint8Array;
        timer.refresh();
      }
    } catch (error) {
      throw new ConnectionError(`the connection to ${this.name} was lost: ${describeFailure(error)}`, 'broken');
    } finally {
      clearTimeout(timer);
      answer.destroy();
    }
  }

  /** @param pausesMs  the pauses before further tries */
  async retry<T>(attempt: () => Promise<T>, signal?: AbortSignal, pausesMs: readonly number[] = PAUSES_MS): Promise<T> {
    for (let tried = 0; ; tried += 1) {
      try {
        return await attempt();
      } catch (error) {
        const pauseMs = pausesMs[tried];
        const atLeastMs = retryAfterOf(error);
        if (pauseMs === undefined || atLeastMs === null || signal?.aborted === true) throw error;
        await sleep(Math.max(pauseMs, atLeastMs), undefined, signal === undefined ? {} : { signal });
      }
    }
  }

  /** Reports connections that fail while a run is followed, until disposed. */
  onTrouble(listener: (message: string) => void): { dispose(): void } {
    this.#listeners.add(listener);
    return { dispose: () => void this.#listeners.delete(listener) };
  }

  reportTrouble(message: string): void {
    for (const listener of this.#listeners) listener(message);
  }

  close(): void {
    this.#agent.destroy();
  }

  #open({ method = 'GET', path, query = {}, headers = {}, body, signal }: ServiceRequest): ClientRequest {
    const { place, token, ca } = this.#settings;
    const options: RequestOptions = {
      method,
      path: `${ROOT}/${path.map(encodeSegment).join('/')}${writeQuery(query)}`,
      // A change must not meet a connection that the service closes at this moment.
      agent: method === 'GET' || method === 'HEAD' ? this.#agent : false,
      ...(signal === undefined ? {} : { signal }),
      headers: {
        ...headers,
        ...describeBody(body),
        ...(token === null || place.kind === 'unix' ? {} : { authorization: `Bearer ${token}` }),
      },
    };
    if (place.kind === 'unix') return requestHttp({ ...options, socketPath: place.path, host: 'voidbox' });
    const { host, port, isTls } = place;
    if (!isTls) return requestHttp({ ...options, host, port });
    return requestHttps({ ...options, host, port, ...(ca === null ? {} : { ca }) });
  }

  #waitForAnswer(sent: ClientRequest, { signal, answerMs = ANSWER_MS }: ServiceRequest): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const late = new Error(`it does not answer within ${answerMs / 1_000} s`);
      const timer = setTimeout(() => sent.destroy(late), answerMs);
      // The time begins when the body has been written.
      sent.once('finish', () => timer.refresh());
      sent.on('error', (error: NodeJS.ErrnoException) => {
        clearTimeout(timer);
        if (signal?.aborted === true) return reject(signal.reason as Error);
        reject(this.#describe(error));
      });
      // A source of the body that failed destroys the request without an error.
      sent.once('close', () => {
        clearTimeout(timer);
        reject(new ConnectionError(`the connection to ${this.name} was closed`, 'broken'));
      });
      sent.once('response', (answer) => {
        clearTimeout(timer);
        // An error is thrown to the reader of the bytes.
        answer.on('error', () => undefined);
        resolve(answer);
      });
    });
  }

  #describe(error: NodeJS.ErrnoException): ServiceError {
    const code = error.code ?? '';
    if (isCertificateProblem(code))
      return new ServiceError(`the certificate of ${this.name} is not accepted: ${describeFailure(error)}`, {
        fault: 'environment',
        code: 'cli/no-service',
        remedy:
          'If the service has a certificate of its own, set VOIDBOX_SERVER_CA to its file, or log in with --ca FILE. The name in the URL is the one in the certificate.',
      });
    return new ConnectionError(`cannot reach ${this.name}: ${describeFailure(error)}`, PROBLEMS.get(code) ?? 'broken');
  }

  async #collect(answer: IncomingMessage, mostBytes: number): Promise<readonly Uint8Array[]> {
    const chunks: Uint8Array[] = [];
    let size = 0;
    const untilMs = performance.now() + MOST_ANSWER_MS;
    for await (const chunk of this.readBytes(answer)) {
      size += chunk.byteLength;
      if (size > mostBytes) throw createForeignError(this.name);
      if (performance.now() > untilMs)
        throw createForeignError(this.name, `${this.name} sends an answer that does not end in 10 minutes`);
      chunks.push(chunk);
    }
    return chunks;
  }
}

/** Errors before a byte of the request was sent. */
const PROBLEMS: ReadonlyMap<string, ConnectionProblem> = new Map([
  ['ENOENT', 'absent'],
  ['ENOTFOUND', 'absent'],
  ['EACCES', 'absent'],
  ['ECONNREFUSED', 'refused'],
  ['EAI_AGAIN', 'refused'],
  ['EHOSTUNREACH', 'refused'],
  ['ENETUNREACH', 'refused'],
]);

function isCertificateProblem(code: string): boolean {
  return /^(?:ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_)/.test(code);
}

export function createForeignError(
  name: string,
  message = `${name} gives an answer that is not one of Voidbox`,
): ServiceError {
  return new ServiceError(message, {
    fault: 'environment',
    code: 'cli/no-service',
    remedy:
      'Check VOIDBOX_SERVER or your login, and that the service has the version of this command line: voidbox --version',
  });
}

/** @returns how long to wait at least before the request is sent again; null: it must not be */
function retryAfterOf(error: unknown): number | null {
  if (error instanceof ConnectionError) return error.kind === 'absent' ? null : 0;
  if (!isServiceError(error)) return null;
  const ms = retryAfter.get(error) ?? (error.code === 'api/too-many-connections' ? 0 : null);
  return ms === null || ms > MOST_RETRY_AFTER_MS ? null : ms;
}

const retryAfter = new WeakMap<Error, number>();

function withRetryAfter(error: Error, header: string | undefined): Error {
  if (/^\d{1,6}$/.test(header ?? '')) retryAfter.set(error, Number(header) * 1_000);
  return error;
}

function encodeSegment(text: string): string {
  if (text !== '' && text !== '.' && text !== '..') return encodeURIComponent(text);
  throw new ServiceError(`no URL can contain \`${text}\` as a name`, {
    fault: 'usage',
    code: 'api/invalid-request',
    remedy: 'Use the command on the machine of the service.',
  });
}

function writeQuery(query: NonNullable<ServiceRequest['query']>): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
  );
  return given.length === 0 ? '' : `?${given.join('&')}`;
}

function describeBody(body: RequestBody | undefined): Readonly<Record<string, string>> {
  if (body === undefined) return {};
  if ('json' in body) return { 'content-type': 'application/json' };
  return { 'content-type': 'application/octet-stream', 'content-length': String(body.sizeBytes) };
}

/** A source that fails ends the connection. Its failure belongs to the caller, and not to the connection. */
function watchSource(body: RequestBody | undefined): {
  readonly body: RequestBody | undefined;
  failure(): Error | null;
} {
  if (body === undefined || 'json' in body) return { body, failure: () => null };
  let failure: Error | null = null;
  const { bytes, sizeBytes } = body;
  async function* watch(): AsyncGenerator<Uint8Array> {
    try {
      yield* bytes;
    } catch (error) {
      failure = error as Error;
      throw error;
    }
  }
  return { body: { bytes: watch(), sizeBytes }, failure: () => failure };
}

async function writeBody(sent: ClientRequest, body: RequestBody | undefined): Promise<void> {
  if (body === undefined) sent.end();
  else if ('json' in body) sent.end(JSON.stringify(body.json));
  else await pipeline(body.bytes, sent);
}

function describeFailure(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return describeFailure(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}
