import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { dirname, join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Rig, rigOf } from '../../test/rig/servers/mcp-client.ts';
import { skillScript } from '../../test/rig/skills/skill-script.ts';

const SKILL = `await mcpMain(skill({ name: 'two', entry: 'a', version: '3.0.0' })
  .step('a', { prompt: ({ refs }) => refs.load('a.md'), response: z.string(), next: 'b' })
  .step('b', { prompt: 'B', action: ({ response }) => new Promise((resolve) => setTimeout(resolve, 20)), next: terminal })
  .build());`;

interface Served {
  readonly url: URL;
  readonly child: ChildProcess;
}

async function serve(args: readonly string[] = [], token?: string): Promise<Served> {
  const script = await skillScript(SKILL, { 'a.md': 'A from a file' });
  const tokenFile = join(dirname(script), 'token');
  if (token !== undefined) await writeFile(tokenFile, token);
  const flags = [...args, ...(token === undefined ? [] : ['--token-file', tokenFile])];
  return listening(spawn(process.execPath, [script, 'mcp', '--http', '0', ...flags], { stdio: 'pipe' }));
}

async function listening(child: ChildProcess): Promise<Served> {
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  return new Promise((resolve, reject) => {
    child.once('exit', () => reject(new Error(`the server ended without listening: ${said}`)));
    child.stderr!.on('data', (chunk) => {
      said += String(chunk);
      const url = /^listening on (\S+)$/m.exec(said)?.[1];
      if (url !== undefined) resolve({ url: new URL(url), child });
    });
  });
}

async function connect(
  url: URL,
  headers: Record<string, string> = {},
): Promise<Rig & { readonly transport: StreamableHTTPClientTransport }> {
  const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers } });
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(transport as Transport);
  onTestFinished(() => client.close());
  return { ...(await rigOf(client)), transport };
}

interface Reply {
  readonly status: number;
  readonly headers: Record<string, unknown>;
  readonly body: string;
}

const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } },
};
const JSON_HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** Plain HTTP, with whatever headers: a fetch would not send all of them. */
function send(
  url: URL,
  headers: Record<string, string>,
  body: string = JSON.stringify(INITIALIZE),
  method = 'POST',
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers: { ...JSON_HEADERS, ...headers } }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode!, headers: response.headers, body: text }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

describe('a skill over streamable HTTP', () => {
  it('is driven by several clients of the library at once, whose sessions outlive their connections', async () => {
    const { child, url } = await serve();
    expect(url.hostname).toBe('127.0.0.1');
    const [one, two] = await Promise.all([connect(url), connect(url)]);
    expect(one.client.getServerVersion()).toEqual({ name: 'two', version: '3.0.0' });
    const { session } = (await one.call('start')).structured;
    await one.transport.terminateSession();
    await one.client.close();
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => two.call('advance', { session, step: 'a', output: 'x' })),
    );
    expect(answers.map(({ structured }) => structured['error'] ?? structured['step']).toSorted()).toEqual([
      'b',
      'order',
      'order',
      'order',
    ]);
    const done = await two.call('advance', { session, step: 'b', output: {} });
    expect(done.structured).toMatchObject({ session, status: 'done' });
    expect(JSON.parse(done.text)).toEqual(done.structured);
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
  });

  it('tells who waits for an action that the server was ended', async () => {
    const script = await skillScript(`await mcpMain(skill({ name: 's', entry: 'a' })
      .step('a', { action: () => { console.error('acting'); return new Promise(() => {}); }, next: terminal }).build());`);
    const { child, url } = await listening(spawn(process.execPath, [script, 'mcp', '--http', '0'], { stdio: 'pipe' }));
    const { call } = await connect(url);
    const answer = call('start');
    await once(child.stderr!, 'data');
    child.kill('SIGTERM');
    expect((await answer).structured).toMatchObject({ status: 'error', error: 'cancelled', retry: false });
    expect(await once(child, 'exit')).toEqual([0, null]);
  });

  it('answers only to its own name, and to no page of another', async () => {
    const { url } = await serve();
    const { host, port } = url;
    expect((await send(url, { host: 'evil.example' })).status).toBe(403);
    expect((await send(url, { host: `evil.example:${port}` })).status).toBe(403);
    expect((await send(url, { host: `127.0.0.1:${Number(port) + 1}` })).status).toBe(403);
    expect((await send(url, { origin: 'https://evil.example' })).status).toBe(403);
    expect((await send(url, { origin: 'null' })).status).toBe(403);
    expect((await send(url, { origin: `http://${host}` })).status).toBe(200);
    expect((await send(url, { host: `localhost:${port}` })).status).toBe(200);
  });

  it('answers to a further name if `--allow-host` sets it', async () => {
    const { url } = await serve(['--allow-host', 'skills.example']);
    expect((await send(url, { host: 'skills.example' })).status).toBe(200);
    expect((await send(url, { host: 'other.example' })).status).toBe(403);
  });

  it('takes only who has the token', async () => {
    const { url } = await serve([], 's3cret\n');
    const refused = await send(url, {});
    expect([refused.status, refused.headers['www-authenticate']]).toEqual([401, 'Bearer']);
    expect((await send(url, { authorization: 'Bearer s3cre' })).status).toBe(401);
    expect((await send(url, { authorization: 'Basic s3cret' })).status).toBe(401);
    const { call } = await connect(url, { authorization: 'Bearer s3cret' });
    expect((await call('start')).structured['prompt']).toBe('<prompt>\nA from a file\n</prompt>');
  });

  it('listens beyond this machine only with a token', async () => {
    const script = await skillScript(SKILL);
    const child = spawn(process.execPath, [script, 'mcp', '--http', '0', '--listen', '0.0.0.0'], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const [[code], [said]] = await Promise.all([once(child, 'exit'), once(child.stderr, 'data')]);
    expect([code, String(said)]).toEqual([1, expect.stringContaining('Pass --token-file')]);
    expect((await serve(['--listen', '0.0.0.0'], 's3cret')).url.port).not.toBe('');
  });

  it('reports that its port is taken', async () => {
    const { url } = await serve();
    const child = spawn(process.execPath, [await skillScript(SKILL), 'mcp', '--http', url.port], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const [[code], [said]] = await Promise.all([once(child, 'exit'), once(child.stderr, 'data')]);
    expect([code, String(said)]).toEqual([1, expect.stringContaining('EADDRINUSE')]);
  });

  it('rejects bodies that are too large, and malformed requests', async () => {
    const { url } = await serve(['--max-message-mib', '1']);
    const large = JSON.stringify({ ...INITIALIZE, padding: 'x'.repeat(1024 * 1024) });
    expect((await send(url, {}, large)).status).toBe(413);
    expect((await send(url, { 'transfer-encoding': 'chunked' }, large)).status).toBe(413);
    expect((await send(url, {}, '{')).status).toBe(400);
    expect((await send(url, {}, '{"jsonrpc":"2.0","id":1,"method":"tools/list"}')).status).toBe(400);
    expect((await send(url, { 'mcp-session-id': 'unknown' })).status).toBe(404);
    expect((await send(new URL('/other', url), {})).status).toBe(404);
    expect((await send(url, {}, '', 'GET')).status).toBe(405);
    expect((await send(url, {})).status).toBe(200);
  });

  it('keeps at most the configured number of sessions, for all clients together', async () => {
    const { url } = await serve(['--max-sessions', '2']);
    const rigs = await Promise.all([connect(url), connect(url), connect(url)]);
    const answers = await Promise.all(rigs.map(({ call }) => call('start')));
    expect(answers.map(({ structured }) => structured['error']).filter((error) => error !== undefined)).toEqual([
      'full',
    ]);
  });
});

it('the server keeps running when the reader of its standard error has gone', { timeout: 300_000 }, async () => {
  const script = await skillScript(`await mcpMain(skill({ name: 's', entry: 'a' })
    .step('a', { prompt: () => { setTimeout(() => { throw new Error('stray'); }); return 'A'; }, next: terminal }).build());`);
  const { child, url } = await listening(spawn(process.execPath, [script, 'mcp', '--http', '0'], { stdio: 'pipe' }));
  child.stderr!.destroy();
  await once(child.stderr!, 'close');
  // Writing the stray error to standard error fails. If the server reported that failure too, it would fail again
  // without end.
  for (let turn = 0; turn < 3; turn++) {
    const { call } = await connect(url);
    expect((await call('start')).structured['prompt']).toBe('<prompt>\nA\n</prompt>');
  }
});
