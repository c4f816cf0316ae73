/**
 * A model server without a model: it answers as the Responses API of OpenAI and the Messages API of Anthropic do, streaming, by a
 * script. What a script says is decided by the conversation it is asked with, so that agents may come in any number and order, and
 * one that is started anew begins anew.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { answerMessages } from './fake-messages.ts';
import { answerResponses } from './fake-responses.ts';
import type { Asked, ModelApi, ModelStep } from './model-api.ts';

export type ModelScript = (asked: Asked) => ModelStep | readonly [waitMs: number, step: ModelStep];

export interface ModelRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
}

export interface FakeModel extends AsyncDisposable {
  readonly port: number;
  /** In their order. */
  readonly requests: readonly ModelRequest[];
}

const BODY_BYTES = 16 * 1024 * 1024;

/** @param tls  its key and certificate, in PEM: it speaks https alone */
export async function startFakeModel(
  script: ModelScript,
  tls?: { readonly key: string; readonly cert: string },
): Promise<FakeModel> {
  const requests: ModelRequest[] = [];
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    answer(script, requests, request, response).catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(500, { 'content-type': 'text/plain' });
      response.end(String(error));
    });
  };
  const server = tls === undefined ? createServer(onRequest) : createTlsServer(tls, onRequest);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function answer(
  script: ModelScript,
  requests: ModelRequest[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const body = await bodyOf(request);
  const path = (request.url ?? '').replace(/\?.*$/, '');
  requests.push({ path, headers: request.headers, body });
  const api = request.method === 'POST' ? apiAt(path) : null;
  if (api === null) {
    response.writeHead(404, { 'content-type': 'application/json' });
    response.end('{"error":{"type":"not_found_error","message":"no such path"}}');
    return;
  }
  const { asked, context } = api.read(JSON.parse(body) as Readonly<Record<string, unknown>>);
  const said = script(asked);
  const [waitMs, step] = 'length' in said ? said : ([0, said] as const);
  await sleep(waitMs);
  await api.say(response, step, context);
}

function apiAt(path: string): ModelApi | null {
  if (path.endsWith('/responses')) return answerResponses;
  return path.endsWith('/messages') ? answerMessages : null;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.byteLength;
    if (bytes > BODY_BYTES) throw new Error(`a request of more than ${BODY_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}
