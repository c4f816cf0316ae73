/** A service on the loopback that has one run of two stages, and breaks the first stream of its events. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface OneRunService {
  readonly url: string;
  readonly token: string;
  /** The requests with their token, such as `GET runs/r-1/events 1`; a number is their `Last-Event-ID`. */
  readonly asked: readonly string[];
  close(): Promise<void>;
}

const TOKEN = `voidbox_${'t'.repeat(43)}`;
const RUN = 'r-1';

function writeEvent(seq: number, stage: string, outcome: string): string {
  const event = { seq, id: `e${seq}`, atMs: seq, body: { type: 'stage-finished', stage, result: { stage, outcome } } };
  return `id: ${seq}\ndata: ${JSON.stringify(event)}\n\n`;
}

export async function serveOneRun(): Promise<OneRunService> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const isKnown = request.headers.authorization === `Bearer ${TOKEN}`;
    const last = request.headers['last-event-id'];
    const path = request.url!.replace('/api/v1/', '').replace(/\?.*/, '');
    if (isKnown) asked.push(`${request.method} ${path}${last === undefined ? '' : ` ${String(last)}`}`);
    request.resume().once('end', () => answerRequest(isKnown ? path : '', request, response));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    token: TOKEN,
    asked,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function answerRequest(path: string, { headers }: IncomingMessage, response: ServerResponse): void {
  const answerJson = (status: number, value: object): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  };
  if (path === 'runs') return answerJson(201, { runId: RUN, diagnostics: [], run: null });
  if (path === `runs/${RUN}/result`) return answerJson(200, { runId: RUN, state: 'failed', outputText: null });
  if (path !== `runs/${RUN}/events`) return answerJson(404, {});
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  if (headers['last-event-id'] === undefined) {
    response.write(`${writeEvent(1, 'first', 'succeeded')}id: 2\ndata: {"seq":2`, () => response.destroy());
    return;
  }
  response.end(
    `${writeEvent(1, 'first', 'succeeded')}${writeEvent(2, 'second', 'failed')}event: end\ndata: {"state":"failed"}\n\n`,
  );
}
