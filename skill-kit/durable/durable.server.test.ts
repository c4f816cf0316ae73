/** A skill's own command line and MCP server over durable sessions, on an embedded stack of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { type Rig, rigOf } from '../../test/rig/servers/mcp-client.ts';

/** `a` writes its key to a file, then waits until a gate is opened, if the skill has a gate. */
const DEFINITION = (name: string): string => `skill({ name: '${name}', version: '2.0.0', entry: 'a' })
  .step('a', {
    prompt: 'A?',
    response: z.object({ v: z.number() }),
    action: async ({ response, idempotencyKey }) => {
      appendFileSync(HERE + '/keys', idempotencyKey + '\\n');
      while (existsSync(HERE + '/gate')) await new Promise((resolve) => setTimeout(resolve, 20));
      return response.v * 2;
    },
    next: 'b',
  })
  .step('b', { prompt: ({ refs }) => refs.load('b.md'), response: z.object({ w: z.string() }), save: ({ response }) => ({ step: { said: response.w } }), next: terminal })
  .build()`;

const BIN = join(findPackageRoot(), 'bin/voidbox.js');
let dir: string;
let script: string;
let env: Record<string, string>;

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-durable-'));
  mkdirSync(join(dir, 'node_modules'));
  symlinkSync(findPackageRoot(), join(dir, 'node_modules/voidbox'));
  script = writeScript('acting');
  mkdirSync(join(dir, 'acting/references'));
  writeFileSync(join(dir, 'acting/references/b.md'), 'B, by reference');
  const given = Object.entries(process.env).filter((one): one is [string, string] => one[1] !== undefined);
  env = { ...Object.fromEntries(given), VOIDBOX_STATE_DIR: join(dir, 'state'), NO_COLOR: '1' };
});

afterAll(async () => {
  await run([BIN, 'down']).ended;
  rmSync(dir, { recursive: true, force: true });
});

/** A script as its author writes it, in a folder below that of its references. */
function writeScript(name: string): string {
  mkdirSync(join(dir, name, 'bin'), { recursive: true });
  const path = join(dir, name, 'bin/run.mjs');
  const head = `import { appendFileSync, existsSync } from 'node:fs';
import { skill, terminal, z } from 'voidbox/skill-kit';
import { main } from 'voidbox/skill-kit/cli';
const HERE = ${JSON.stringify(dir)};
`;
  writeFileSync(path, `${head}await main(${DEFINITION(name)});\n`);
  return path;
}

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(
  args: readonly string[],
  variables: Record<string, string> = {},
): { readonly child: ChildProcess; readonly ended: Promise<Ran> } {
  const child = spawn(process.execPath, [...args], {
    cwd: dir,
    env: { ...env, ...variables },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 110_000,
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const ended = once(child, 'close').then(([code]) => ({ code: (code as number | null) ?? -1, stdout, stderr }));
  return { child, ended };
}

type Reply = Record<string, unknown> & { readonly session: string };

async function cli(...args: string[]): Promise<Reply> {
  const { code, stdout, stderr } = await run([script, ...args]).ended;
  if (code !== 0) throw new Error(`exit code ${code}: ${stderr}`);
  return JSON.parse(stdout) as Reply;
}

const advance = (session: string, step: string, output: unknown): string[] => [
  'advance',
  '--session',
  session,
  '--step',
  step,
  '--output',
  JSON.stringify(output),
];
const keys = (session: string): string[] =>
  existsSync(join(dir, 'keys'))
    ? readFileSync(join(dir, 'keys'), 'utf8')
        .split('\n')
        .filter((line) => line.startsWith(`${session}/`))
    : [];
const begun = (session: string): Promise<void> =>
  vi.waitFor(() => expect(keys(session).length).toBeGreaterThan(0), { timeout: 30_000, interval: 20 });

/** Closed until the test ends, or opens it. */
function closeGate(): () => void {
  const gate = join(dir, 'gate');
  writeFileSync(gate, '');
  const open = (): void => rmSync(gate, { force: true });
  onTestFinished(open);
  return open;
}

async function stdioServer(...args: string[]): Promise<Rig & { readonly pid: number }> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [script, 'mcp', '--durable', ...args],
    stderr: 'ignore',
    cwd: dir,
    env,
  });
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return { ...(await rigOf(client)), pid: transport.pid! };
}

async function httpServer(): Promise<Rig & { readonly child: ChildProcess }> {
  const child = spawn(process.execPath, [script, 'mcp', '--durable', '--http', '0'], {
    cwd: dir,
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const url = await new Promise<string>((resolve, reject) => {
    let text = '';
    child.stderr.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      const found = /listening on (\S+)/.exec(text)?.[1];
      if (found !== undefined) resolve(found);
    });
    child.once('exit', () => reject(new Error(text)));
  });
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  onTestFinished(() => client.close());
  return { ...(await rigOf(client)), child };
}

const structured = async (rig: Rig, tool: string, args: Record<string, unknown> = {}): Promise<Reply> =>
  (await rig.call(tool, args)).structured as Reply;

describe('a skill’s command line', { timeout: 180_000 }, () => {
  test('starts a durable session of itself, and continues it to its end', async () => {
    const first = await cli('start', '--durable');
    expect(first).toMatchObject({
      kind: 'prompt',
      step: 'a',
      turn: 1,
      prompt: '<prompt>\nA?\n</prompt>',
      preamble: expect.any(String),
    });
    const { session } = first;
    expect(await cli('advance', '--session', session, '--step', 'a', '--output', '{"v":"x"}')).toMatchObject({
      kind: 'error',
      error: 'validation',
      retry: true,
    });
    const second = await cli(...advance(session, 'a', { v: 1 }), '--turn', '1');
    expect(second).toMatchObject({
      step: 'b',
      prompt: '<prompt>\nB, by reference\n</prompt>',
      completed: { step: 'a', actionResult: 2 },
    });
    // The same answer gets what it got; another one for that turn does not.
    expect(await cli(...advance(session, 'a', { v: 1 }))).toEqual(second);
    expect(await cli(...advance(session, 'a', { v: 2 }))).toMatchObject({
      kind: 'error',
      error: 'order',
      retry: false,
    });
    expect(await cli('advance', '--session', session)).toMatchObject({ kind: 'prompt', step: 'b' });
    const done = await cli(...advance(session, 'b', { w: 'end' }));
    expect(done).toMatchObject({ kind: 'done', finalOutput: { said: 'end' } });
    // Also when the session is over.
    expect(await cli(...advance(session, 'b', { w: 'end' }))).toEqual(done);
    expect(await cli(...advance(session, 'b', { w: 'other' }))).toMatchObject({ kind: 'error', error: 'order' });
    expect(keys(session)).toHaveLength(1);
  });

  test('killed in mid-answer loses nothing: the next one gets the reply, and nothing is done twice', async () => {
    const { session } = await cli('start', '--durable');
    const open = closeGate();
    const { child, ended } = run([script, ...advance(session, 'a', { v: 3 })]);
    await begun(session);
    child.kill('SIGKILL');
    expect((await ended).stdout).toBe('');
    const again = cli(...advance(session, 'a', { v: 3 }));
    open();
    expect(await again).toMatchObject({ kind: 'prompt', step: 'b', completed: { actionResult: 6 } });
    expect(keys(session)).toHaveLength(1);
    expect(await run([script, 'cleanup', '--session', session]).ended).toMatchObject({ code: 0, stdout: '' });
    expect(await run([script, 'advance', '--session', session]).ended).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('"error":"cancelled"'),
    });
  });

  test('one of two calls that answer one turn wins, and the other gets an error', async () => {
    const { session } = await cli('start', '--durable', '--session', 'raced-1');
    const both = await Promise.all([
      cli(...advance(session, 'a', { v: 1 }), '--turn', '1'),
      cli(...advance(session, 'a', { v: 2 }), '--turn', '1'),
    ]);
    const [won, lost] = both[0]['kind'] === 'prompt' ? both : both.toReversed();
    expect(won).toMatchObject({ kind: 'prompt', step: 'b' });
    expect(lost).toMatchObject({ kind: 'error', error: expect.stringMatching(/busy|order/), retry: false });
    expect(keys(session)).toHaveLength(1);
    expect((await run([script, 'start', '--durable', '--session', 'raced-1']).ended).stderr).toContain(
      'already exists',
    );
  });

  test('a standalone bundle finds an installed Voidbox, which loads the bundle itself', async () => {
    const { rolldown } = await import('rolldown');
    const bundle = await rolldown({ input: script, platform: 'node', cwd: dir });
    const folder = mkdtempSync(join(tmpdir(), 'voidbox-durable-bundle-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const { output } = await bundle.write({
      dir: folder,
      format: 'esm',
      codeSplitting: false,
      entryFileNames: 'run.mjs',
    });
    await bundle.close();
    expect(
      output.flatMap((one) => ('moduleIds' in one ? one.moduleIds : [])).filter((id) => id.includes('@temporalio')),
    ).toEqual([]);
    const alone = { VOIDBOX_STATE_DIR: join(folder, 'state') };
    onTestFinished(async () => void (await run([BIN, 'down'], alone).ended));
    mkdirSync(join(folder, 'references'));
    writeFileSync(join(folder, 'references/b.md'), 'B of the bundle');
    const elsewhere = { cwd: folder, env: { ...env, ...alone, PATH: folder } };
    const missing = spawn(process.execPath, [join(folder, 'run.mjs'), 'start', '--durable'], {
      ...elsewhere,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    missing.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
    expect(await once(missing, 'close')).toEqual([1, null]);
    expect(said).toContain('Install it (npm install voidbox), or set VOIDBOX_BIN');
    const started = await run([join(folder, 'run.mjs'), 'start', '--durable'], { ...alone, VOIDBOX_BIN: BIN }).ended;
    expect(started).toMatchObject({ code: 0 });
    const { session } = JSON.parse(started.stdout) as Reply;
    const next = await run([join(folder, 'run.mjs'), ...advance(session, 'a', { v: 4 })], {
      ...alone,
      VOIDBOX_BIN: BIN,
    }).ended;
    expect(JSON.parse(next.stdout)).toMatchObject({ step: 'b', prompt: '<prompt>\nB of the bundle\n</prompt>' });
  });
});

describe('a skill’s MCP server', { timeout: 180_000 }, () => {
  test('over stdio is killed, and the next one continues the session; so does the command line', async () => {
    const one = await stdioServer();
    const first = await structured(one, 'start');
    expect(first).toMatchObject({ status: 'prompt', step: 'a', turn: 1, preamble: expect.any(String) });
    const { session } = first;
    const open = closeGate();
    const cut = one.call('advance', { session, step: 'a', output: { v: 5 }, turn: 1 });
    cut.catch(() => undefined);
    await begun(session);
    process.kill(one.pid, 'SIGKILL');
    await expect(cut).rejects.toThrow(/closed/i);
    const two = await stdioServer();
    const again = structured(two, 'advance', { session, step: 'a', output: { v: 5 }, turn: 1 });
    open();
    expect(await again).toMatchObject({ status: 'prompt', step: 'b', prompt: '<prompt>\nB, by reference\n</prompt>' });
    expect(keys(session)).toHaveLength(1);
    expect(await structured(two, 'advance', { session })).toMatchObject({ status: 'prompt', step: 'b' });
    expect(await cli(...advance(session, 'b', { w: 'both' }))).toMatchObject({
      kind: 'done',
      finalOutput: { said: 'both' },
    });
    expect(await structured(two, 'advance', { session })).toEqual({
      session,
      status: 'done',
      finalOutput: { said: 'both' },
    });
  });

  test('over HTTP is killed, and the next one continues the session', async () => {
    const one = await httpServer();
    const { session } = await structured(one, 'start');
    expect(await structured(one, 'advance', { session, step: 'a', output: { v: 1 } })).toMatchObject({ step: 'b' });
    one.child.kill('SIGKILL');
    const two = await httpServer();
    expect(await structured(two, 'advance', { session, step: 'b', output: { w: 'x' } })).toMatchObject({
      status: 'done',
      finalOutput: { said: 'x' },
    });
  });

  test('one of two servers that answer one turn wins', async () => {
    const [one, two] = await Promise.all([stdioServer(), httpServer()]);
    const { session } = await structured(one, 'start');
    const answer = (rig: Rig, v: number): Promise<Reply> =>
      structured(rig, 'advance', { session, step: 'a', output: { v }, turn: 1 });
    const both = await Promise.all([answer(one, 1), answer(two, 2)]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(['error', 'prompt']);
    expect(both.find(({ status }) => status === 'error')).toMatchObject({
      error: expect.stringMatching(/busy|order/),
      retry: false,
    });
    expect(keys(session)).toHaveLength(1);
  });

  test('takes no session of another skill, no unknown session, and no more than it may', async () => {
    const rig = await stdioServer('--max-sessions', '1');
    // Whatever other tests have left open counts as well.
    for (const { session } of await openSessions()) await run([BIN, 'session', 'cancel', session]).ended;
    await vi.waitFor(async () => expect(await openSessions()).toEqual([]), { timeout: 20_000, interval: 200 });
    const { session } = await structured(rig, 'start');
    await vi.waitFor(async () => expect(await openSessions()).toHaveLength(1), { timeout: 20_000, interval: 200 });
    expect(await structured(rig, 'start')).toMatchObject({
      status: 'error',
      error: 'full',
      remedy: expect.stringContaining(`voidbox session cancel ${session}`),
    });
    expect(await structured(rig, 'advance', { session: 'no-such' })).toMatchObject({ error: 'unknown', retry: false });
    expect(await structured(rig, 'advance', { session: '../x' })).toMatchObject({ error: 'unknown' });
    const other = writeScript('other');
    expect((await run([other, 'advance', '--session', session]).ended).stderr).toContain(
      'is one of step machine "acting", not of "other"',
    );
  });

  test('outlives the whole stack', async () => {
    const rig = await stdioServer();
    const { session } = await structured(rig, 'start');
    const { supervisorPid, workerPid, serverPid } = JSON.parse(
      readFileSync(join(dir, 'state/stack.json'), 'utf8'),
    ) as Record<string, number>;
    for (const pid of [supervisorPid, workerPid, serverPid]) process.kill(pid!, 'SIGKILL');
    expect(await structured(rig, 'advance', { session, step: 'a', output: { v: 7 } })).toMatchObject({
      status: 'prompt',
      step: 'b',
    });
  });
});

async function openSessions(): Promise<readonly { readonly session: string }[]> {
  const { stdout } = await run([BIN, 'session', 'list', '--state', 'open', '--json']).ended;
  return (JSON.parse(stdout) as { sessions: { session: string }[] }).sessions;
}
