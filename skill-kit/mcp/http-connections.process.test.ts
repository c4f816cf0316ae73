import { describe, expect, it, onTestFinished } from 'vitest';
import { reference } from '../index.ts';
import { type HttpOptions, type HttpServer, serveHttp } from './http.ts';
import { referenceTools } from './reference-tools.ts';

const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } },
};
const HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

async function serve(options: Partial<HttpOptions> = {}): Promise<HttpServer> {
  const built = reference({ name: 'r', description: 'R' })
    .topic('t', { label: 'T', content: () => 'text' })
    .build();
  const tools = referenceTools(built, { load: (name) => name, asset: (path) => path });
  const server = await serveHttp(tools, { port: 0, warn: () => undefined, ...options });
  onTestFinished(() => server.close());
  return server;
}

async function initialize(url: string): Promise<{ readonly status: number; readonly id: string }> {
  const response = await fetch(url, { method: 'POST', headers: HEADERS, body: JSON.stringify(INITIALIZE) });
  await response.text();
  return { status: response.status, id: response.headers.get('mcp-session-id') ?? '' };
}

async function list(url: string, id: string): Promise<number> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/list' });
  const response = await fetch(url, { method: 'POST', headers: { ...HEADERS, 'mcp-session-id': id }, body });
  await response.text();
  return response.status;
}

describe('connections of clients', () => {
  it('are bounded, also when all come at once, and make room when they are idle', async () => {
    let nowMs = 0;
    const { url } = await serve({ maxConnections: 2, idleMs: 1000, now: () => nowMs });
    const all = await Promise.all([1, 2, 3, 4].map(() => initialize(url)));
    expect(all.map(({ status }) => status).toSorted()).toEqual([200, 200, 503, 503]);
    const [kept, left] = all.filter(({ status }) => status === 200).map(({ id }) => id);
    nowMs = 900;
    expect(await list(url, kept!)).toBe(200);
    nowMs = 1500;
    expect(await list(url, left!)).toBe(404);
    expect(await list(url, kept!)).toBe(200);
    expect((await initialize(url)).status).toBe(200);
    expect((await initialize(url)).status).toBe(503);
  });

  it('make room for a newcomer when their clients have been silent for a minute, the longest silent first', async () => {
    let nowMs = 0;
    const { url } = await serve({ maxConnections: 2, now: () => nowMs });
    const [{ id: gone }, { id: kept }] = [await initialize(url), await initialize(url)];
    nowMs = 50_000;
    expect(await list(url, kept)).toBe(200);
    expect((await initialize(url)).status).toBe(503);
    nowMs = 100_000;
    expect((await initialize(url)).status).toBe(200);
    expect([await list(url, gone), await list(url, kept)]).toEqual([404, 200]);
  });

  it('that were refused take no room', async () => {
    const { url } = await serve({ maxConnections: 1 });
    const body = JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/list' });
    for (let i = 0; i < 3; i++) expect((await fetch(url, { method: 'POST', headers: HEADERS, body })).status).toBe(400);
    expect((await initialize(url)).status).toBe(200);
  });

  it('end with DELETE', async () => {
    const { url } = await serve({ maxConnections: 1 });
    const { id } = await initialize(url);
    expect((await fetch(url, { method: 'DELETE', headers: { 'mcp-session-id': id } })).status).toBe(200);
    expect(await list(url, id)).toBe(404);
    expect((await initialize(url)).status).toBe(200);
  });
});
