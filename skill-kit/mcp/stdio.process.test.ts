import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Rig, rigOf } from '../../test/rig/servers/mcp-client.ts';
import { skillScript } from '../../test/rig/skills/skill-script.ts';

const LOOP = `await mcpMain(skill({ name: 'loop', entry: 'a', version: '3.0.0' })
  .step('a', { prompt: ({ refs, attempts }) => refs.load('a.md') + attempts, response: z.object({ i: z.number() }), maxVisits: 100000, next: 'self' })
  .build());`;

async function connect(
  script: string,
  args: readonly string[] = [],
): Promise<Rig & { readonly stderr: Promise<string>; readonly transport: StdioClientTransport }> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [script, 'mcp', ...args],
    stderr: 'pipe',
  });
  const stderr = text(transport.stderr as Readable);
  const client = new Client({ name: 'claude-code', version: '1' });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return { ...(await rigOf(client)), stderr, transport };
}

/** Its client is the test itself, byte for byte. */
function start(
  script: string,
  args: readonly string[] = [],
): {
  readonly child: ChildProcess;
  readonly output: Promise<string>;
  readonly errors: Promise<string>;
  readonly ended: Promise<number | null>;
} {
  const child = spawn(process.execPath, [script, 'mcp', ...args], { stdio: 'pipe' });
  onTestFinished(() => void child.kill('SIGKILL'));
  child.stdin.on('error', () => undefined);
  const output = text(child.stdout);
  // Not every test reads it to its end.
  output.catch(() => undefined);
  return {
    child,
    output,
    errors: text(child.stderr),
    ended: once(child, 'exit').then(([code]) => code as number | null),
  };
}

const line = (id: number, method: string, params: unknown): string =>
  `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`;
const INITIALIZE = line(1, 'initialize', {
  protocolVersion: '2025-06-18',
  capabilities: {},
  clientInfo: { name: 't', version: '1' },
});

describe('a skill over stdio', () => {
  it('is driven by the library’s own client, with references, several sessions and a hundred advances', async () => {
    const { call, client } = await connect(await skillScript(LOOP, { 'a.md': 'Again: ' }));
    expect(client.getServerVersion()).toEqual({ name: 'loop', version: '3.0.0' });
    const [one, two] = await Promise.all([call('start'), call('start')]);
    expect(one.structured['prompt']).toBe('<prompt>\nAgain: 0\n</prompt>');
    expect(one.structured['preamble']).toContain('AskUserQuestion');
    const session = one.structured['session'];
    for (let i = 0; i < 100; i++) await call('advance', { session, step: 'a', output: { i } });
    expect((await call('advance', { session })).structured['prompt']).toBe('<prompt>\nAgain: 100\n</prompt>');
    expect((await call('advance', { session: two.structured['session'] })).structured['prompt']).toBe(
      '<prompt>\nAgain: 0\n</prompt>',
    );
  });

  it("keeps the skill's prints out of the protocol, and survives uncaught errors", async () => {
    const script = await skillScript(`await mcpCompositeMain(skill({ name: 's', entry: 'a' })
      .step('a', { prompt: () => { console.log('printed'); process.stdout.write('written'); return 'A'; }, action: async () => {
        setTimeout(() => { throw new Error('thrown later'); });
        void Promise.reject(new Error('rejected'));
        await new Promise((resolve) => setTimeout(resolve, 50));
      }, next: 'b' })
      .step('b', { prompt: 'B', next: terminal }).build());`);
    const { call, client, stderr } = await connect(script);
    const { session } = (await call('start')).structured;
    expect((await call('advance', { session, step: 'a', output: {} })).structured['step']).toBe('b');
    expect((await call('advance', { session, step: 'b', output: {} })).structured['status']).toBe('done');
    await client.close();
    for (const said of ['printed', 'written', 'thrown later', 'rejected']) expect(await stderr).toContain(said);
  });

  it('serves a reference', async () => {
    const script = await skillScript(
      `await mcpReferenceMain(reference({ name: 'style', description: 'How we write' })
      .topic('names', { label: 'Names', content: ({ refs }) => refs.load('names.md') }).build());`,
      { 'names.md': '# Names' },
    );
    const { call } = await connect(script);
    expect((await call('topic', { name: 'names' })).text).toBe('# Names');
  });

  it('answers what was asked before its client closed its end, then ends', async () => {
    const script = await skillScript(`await mcpMain(skill({ name: 's', entry: 'a' })
      .step('a', { action: () => new Promise((resolve) => setTimeout(resolve, 100)), next: 'b' })
      .step('b', { prompt: 'B', next: terminal }).build());`);
    const { child, ended, errors, output } = start(script);
    child.stdin!.end(`${INITIALIZE}\u001b[2Jnot JSON\n${line(2, 'tools/call', { name: 'start' })}`);
    expect(await ended).toBe(0);
    const answers = (await output)
      .trim()
      .split('\n')
      .map((json) => JSON.parse(json) as { id: number; result: { structuredContent?: { status: string } } });
    expect(answers.map(({ id }) => id)).toEqual([1, 2]);
    expect(answers[1]!.result.structuredContent?.status).toBe('prompt');
    // A terminal is not to act on what the client sent.
    expect(await errors).toMatch(/not valid JSON/);
    expect(await errors).not.toContain('\u001b');
  });

  it('ends with its client although an action never returns', async () => {
    const script = await skillScript(`setInterval(() => {}, 1000);
      await mcpMain(skill({ name: 's', entry: 'a' }).step('a', { action: ({ signal }) => new Promise(() => signal.addEventListener('abort', () => console.error('told to stop'))), next: terminal }).build());`);
    const { child, ended, errors } = start(script);
    child.stdin!.end(INITIALIZE + line(2, 'tools/call', { name: 'start' }));
    expect(await ended).toBe(0);
    expect(await errors).toContain('told to stop');
  });

  it('ends on SIGTERM, also in the middle of an action', async () => {
    const script = await skillScript(
      `await mcpMain(skill({ name: 's', entry: 'a' }).step('a', { action: () => { console.error('acting'); return new Promise(() => {}); }, next: terminal }).build());`,
    );
    const { child, ended } = start(script);
    child.stdin!.write(INITIALIZE + line(2, 'tools/call', { name: 'start' }));
    await once(child.stderr!, 'data');
    child.kill('SIGTERM');
    expect(await ended).toBe(0);
  });

  it('ends when its client stops reading answers', async () => {
    const { child, ended } = start(await skillScript(LOOP, { 'a.md': 'A' }));
    child.stdin!.write(INITIALIZE);
    await once(child.stdout!, 'data');
    child.stdout!.destroy();
    child.stdin!.write(line(2, 'tools/call', { name: 'start' }));
    expect(await ended).toBe(0);
  });

  it('gives up on a client that sends more than it takes, and reports the limit', async () => {
    const { child, ended, errors } = start(await skillScript(LOOP, { 'a.md': 'A' }), ['--max-message-mib', '1']);
    child.stdin!.write(INITIALIZE + 'x'.repeat(2 * 1024 * 1024));
    expect(await ended).toBe(1);
    expect(await errors).toContain(
      'A message of more than 1 MiB came in. Start the server with a larger --max-message-mib.',
    );
  });

  it.each([
    ['--max-sessions', 'none', 'error: --max-sessions must be a whole number from 1 to 1000000, got "none".'],
    ['--nothing', 'x', "error: Unknown option '--nothing'"],
  ])('refuses %s %s with exit code 1', async (flag, value, message) => {
    const { ended, errors } = start(await skillScript(LOOP), [flag, value]);
    expect(await ended).toBe(1);
    expect(await errors).toContain(message);
  });
});

describe("the protocol's library", () => {
  async function scriptsOf(args: readonly string[], stdin: string): Promise<string[]> {
    const folder = await mkdtemp(join(tmpdir(), 'voidbox-coverage-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const child = spawn(process.execPath, [await skillScript(LOOP, { 'a.md': 'A' }), 'mcp', ...args], {
      stdio: 'pipe',
      env: { ...process.env, NODE_V8_COVERAGE: folder },
    });
    child.stdin.end(stdin);
    await once(child, 'exit');
    const [file = ''] = await readdir(folder);
    const { result } = JSON.parse(await readFile(join(folder, file), 'utf8')) as { result: { url: string }[] };
    expect(result.some(({ url }) => url.endsWith('/skill-kit/mcp/main.js'))).toBe(true);
    return result.map(({ url }) => url).filter((url) => url.includes('/node_modules/@modelcontextprotocol/'));
  }

  it('is loaded when a skill is served, and not before', async () => {
    expect(await scriptsOf(['--help'], '')).toEqual([]);
    expect(await scriptsOf([], INITIALIZE)).not.toEqual([]);
  });
});
