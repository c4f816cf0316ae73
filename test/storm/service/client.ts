/** Requests to the HTTP API of a stack whose processes may die at any moment. */
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** The owner uses the Unix socket, a token uses TCP. */
export interface Service {
  readonly stateDir: string;
  readonly port: number;
  readonly token: string;
}

export const DOORS = ['socket', 'tcp'] as const;
export type Door = (typeof DOORS)[number];

export interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Absent processes are back within seconds; a client that sends without a pause would only meet the limit of requests. */
const PAUSE_MS = 150;
/**
 * Longer than the pause between two comments of a silent stream, and than the longest answer: it waits for the start of
 * the service and for the start of its database, which have 90 s each.
 */
export const SILENCE_MS = 200_000;
/** The service is away, has no room, or its client must wait. */
const AGAIN: readonly number[] = [429, 503, 507];

/** A service answers with a status that no killed process explains. */
export class UnexpectedAnswer extends Error {}

export function sendTo(service: Service, door: Door, path: string, { method = 'GET', headers = {}, body }: Sent) {
  const place =
    door === 'socket'
      ? { socketPath: join(service.stateDir, 'api.sock') }
      : { host: '127.0.0.1', port: service.port, headers: { authorization: `Bearer ${service.token}` } };
  const sent = request({
    ...place,
    path: `/api/v1/${path}`,
    method,
    agent: false,
    timeout: SILENCE_MS,
    headers: {
      ...('headers' in place ? place.headers : {}),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
  });
  sent.on('timeout', () => sent.destroy(new UnexpectedAnswer(`${method} ${path}: no byte for ${SILENCE_MS} ms`)));
  sent.end(body);
  return sent;
}

/** Returns the answer when its headers are there. */
export function awaitAnswer(sent: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    sent.on('error', reject).on('response', resolve);
  });
}

/** @throws Error if the connection breaks before the end of the answer */
export async function readText(answer: IncomingMessage): Promise<string> {
  const parts: string[] = [];
  answer.setEncoding('utf8');
  for await (const part of answer) parts.push(part as string);
  return parts.join('');
}

/**
 * Repeats a call as a client does: after a broken connection, and after an answer that asks for it.
 * @param once  returns null: call it again
 * @throws UnexpectedAnswer after an answer that no killed process explains, or without a result at `endAtMs`
 */
export async function repeatUntil<T>(what: string, endAtMs: number, once: () => Promise<T | null>): Promise<T> {
  let last = 'no call';
  while (Date.now() < endAtMs) {
    try {
      const result = await once();
      if (result !== null) return result;
      last = 'it was to be called again';
    } catch (error) {
      if (error instanceof UnexpectedAnswer) throw error;
      last = (error as Error).message;
    }
    await sleep(PAUSE_MS);
  }
  throw new UnexpectedAnswer(`${what}: there was no end in time, and the last call says: ${last}`);
}

/**
 * @returns false: the request must be sent again
 * @throws UnexpectedAnswer
 */
export async function isAccepted(answer: IncomingMessage, wanted: readonly number[], what: string): Promise<boolean> {
  const status = answer.statusCode ?? 0;
  if (wanted.includes(status)) return true;
  const text = await readText(answer);
  if (!AGAIN.includes(status)) throw new UnexpectedAnswer(`${what}: ${status} ${text.slice(0, 400)}`);
  await sleep(Number(answer.headers['retry-after'] ?? 0) * 1_000);
  return false;
}
