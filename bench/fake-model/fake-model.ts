/**
 * A model server without a model. It streams scripted answers as OpenAI's Responses API and Anthropic's Messages API
 * do. The script chooses an answer by the conversation in the request. So agents may connect in any number and order,
 * and a restarted agent starts from the beginning.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { answerMessages } from './fake-messages.ts';
import { answerResponses } from './fake-responses.ts';
import {
  type Asked,
  type Fields,
  type ModelApi,
  type ModelStep,
  readRequest,
  type SpokenStep,
  type StepContext,
} from './model-api.ts';

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

/** @param tls  key and certificate in PEM; with it, the server accepts only https */
export async function startFakeModel(
  script: ModelScript,
  tls?: { readonly key: string; readonly cert: string },
): Promise<FakeModel> {
  const requests: ModelRequest[] = [];
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    answer(script, requests, request, response).catch((error: unknown) => {
      // A mistake in a script gets status 400, after which no command line retries.
      if (!response.headersSent) response.writeHead(400, { 'content-type': 'text/plain' });
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
    sendJson(response, 404, { error: { type: 'not_found_error', message: 'no such path' } });
    return;
  }
  const { asked, context } = readRequest(api, JSON.parse(body) as Fields);
  const said = script(asked);
  const [waitMs, step] = 'length' in said ? said : ([0, said] as const);
  await sleep(waitMs);
  if ('status' in step) sendJson(response, step.status, api.errorOf(step));
  else await sendStream(response, api, step, context);
}

function sendJson(response: ServerResponse, status: number, body: Fields): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

/** Server-sent events. A tool that is not offered shows before the first of them. */
async function sendStream(
  response: ServerResponse,
  api: ModelApi,
  step: SpokenStep,
  context: StepContext,
): Promise<void> {
  for await (const event of api.speak(step, context)) {
    if (!response.headersSent)
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  }
  if (!('cut' in step)) response.end();
  // After what was written is on its way: a reset may overtake it.
  else setTimeout(() => response.destroy(), 50);
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
