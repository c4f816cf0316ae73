import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  closeSync,
  createReadStream,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { makeBlockingPipe, PIPE_ENDS_MS } from '../../test/rig/vms/blocking-pipe.ts';
import { linesOf, TemporaryFolder, type Ran } from '../../test/rig/skills/skill-command.ts';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');
/** `a` writes its key to a file, then waits until a gate is opened, if the skill has a gate. */
const SKILL = `
  import { appendFileSync, existsSync } from 'node:fs';
  import { setTimeout as delay } from 'node:timers/promises';
  import { skill, terminal, z } from '${join(ROOT, 'dist/skill-kit/index.js')}';
  import { main } from '${join(ROOT, 'dist/skill-kit/cli.js')}';
  const here = import.meta.dirname ?? new URL('.', import.meta.url).pathname;
  const act = async ({ response, idempotencyKey }) => {
    appendFileSync(here + '/keys', idempotencyKey + ' ' + JSON.stringify(response) + '\\n');
    if (response.v === 0) await new Promise(() => undefined);
    while (existsSync(here + '/gate')) await delay(10);
    return 'acted';
  };
  const definition = skill({ name: 'acting', entry: 'a' })
    .step('a', { prompt: 'A', response: z.object({ v: z.number() }), action: act, maxVisits: 1000, next: ({ response }) => (response.v < 0 ? 'end' : 'self') })
    .step('end', { prompt: 'E', next: terminal })
    .build();
  await main(definition);
`;

let folder: TemporaryFolder;
const children = new Set<ChildProcess>();
beforeEach(() => {
  folder = new TemporaryFolder();
  writeFileSync(folder.file('skill.mjs'), SKILL);
});
afterEach(() => {
  for (const child of children) child.kill('SIGKILL');
  children.clear();
  folder[Symbol.dispose]();
});

interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ran>;
}

function run(
  argv: readonly string[],
  options: { readonly stdin?: string | Readable; readonly env?: NodeJS.ProcessEnv } = {},
): Running {
  const child = spawn(process.execPath, [folder.file('skill.mjs'), ...argv], {
    env: { PATH: process.env['PATH'], ...options.env },
  });
  children.add(child);
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  // It may end before it has read all of it.
  child.stdin.on('error', () => undefined);
  if (typeof options.stdin === 'object') options.stdin.pipe(child.stdin);
  else child.stdin.end(options.stdin ?? '');
  const ended = new Promise<Ran>((resolve) => {
    child.once('close', (code) => {
      children.delete(child);
      resolve({ code: code ?? -1, stdout, stderr });
    });
  });
  return { child, ended };
}

interface Started {
  readonly id: string;
  readonly file: string;
  readonly advance: (...argv: string[]) => Running;
}

async function start(...argv: string[]): Promise<Started> {
  const dir = ['--session-dir', folder.file('sessions')];
  const { code, stdout, stderr } = await run(['start', '--session', 'new', ...dir, ...argv]).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const { sessionId: id, file } = JSON.parse(stdout) as { sessionId: string; file: string };
  return { id, file, advance: (...more) => run(['advance', '--session', id, ...dir, ...more]) };
}

const keys = (): string[] =>
  // Between its making and its first line the file is empty.
  existsSync(folder.file('keys'))
    ? readFileSync(folder.file('keys'), 'utf8')
        .split('\n')
        .filter((line) => line !== '')
    : [];
const write = (file: string, v: number): void =>
  appendFileSync(file, `${JSON.stringify({ type: 'output', step: 'a', output: { v } })}\n`);
const acted = (count: number): Promise<void> =>
  vi.waitFor(() => expect(keys().length).toBe(count), { timeout: 20_000, interval: 20 });
const closeGate = (): void => writeFileSync(folder.file('gate'), '');
const openGate = (): void => rmSync(folder.file('gate'));
const told = (line: number): Ran => ({ code: 0, stdout: `${line}\n`, stderr: '' });

async function killed({ child, ended }: Running): Promise<void> {
  child.kill('SIGKILL');
  expect((await ended).stdout).toBe('');
}

it('defect: parallel advances of one output in different processes act once and answer the same', async () => {
  const session = await start();
  write(session.file, 1);
  const ran = await Promise.all(Array.from({ length: 4 }, () => session.advance().ended));
  expect(ran).toEqual(Array.from({ length: 4 }, () => told(4)));
  expect(keys().length).toBe(1);
  expect(linesOf(session.file).length).toBe(4);
  expect(readdirSync(folder.file('sessions')).filter((name) => name.includes('.lock.'))).toEqual([]);
});

it('defect: killed between action and record, the retry finishes it under the same key', async () => {
  const session = await start();
  closeGate();
  write(session.file, 1);
  const first = session.advance();
  await acted(1);
  await killed(first);
  openGate();
  expect(await session.advance().ended).toEqual(told(4));
  expect(keys().length).toBe(2);
  expect(keys()[0]).toBe(keys()[1]);
  expect(linesOf(session.file)[3]).toMatchObject({
    kind: 'prompt',
    completed: { step: 'a', response: { v: 1 }, actionResult: 'acted' },
  });
  write(session.file, 2);
  expect(await session.advance().ended).toEqual(told(6));
  expect(keys()[2]!.split(' ')[0]).not.toBe(keys()[0]!.split(' ')[0]);
});

it('killed in the action and asked again with another answer, the first answer counts: its action may have happened', async () => {
  const session = await start('--output-mode', 'flag');
  closeGate();
  const first = session.advance('--step', 'a', '--output', '{"v":1}');
  await acted(1);
  await killed(first);
  openGate();
  expect(await session.advance('--step', 'a', '--output', '{"v":2}').ended).toEqual(told(6));
  const lines = linesOf(session.file);
  expect(lines[3]).toMatchObject({ kind: 'prompt', completed: { response: { v: 1 } } });
  expect(lines[5]).toMatchObject({ kind: 'error', error: 'order', step: 'a' });
  expect(new Set(keys()).size).toBe(1);
});

it('killed in flag mode, the same call again gets the answer, and writes no second output', async () => {
  const session = await start('--output-mode', 'flag');
  closeGate();
  const first = session.advance('--step', 'a', '--output', '{"v":1}');
  await acted(1);
  await killed(first);
  openGate();
  expect(await session.advance('--step', 'a', '--output', '{"v":1}').ended).toEqual(told(4));
  expect(linesOf(session.file).map(({ type }) => type)).toEqual(['header', 'prompt', 'output', 'prompt']);
});

it('a process that waits for a killed one continues instead of it', async () => {
  const session = await start();
  closeGate();
  write(session.file, 1);
  const first = session.advance();
  await acted(1);
  const waiting = [session.advance(), session.advance()];
  await killed(first);
  await acted(2);
  openGate();
  expect(await Promise.all(waiting.map(({ ended }) => ended))).toEqual([told(4), told(4)]);
  expect(keys().length).toBe(2);
  expect(new Set(keys()).size).toBe(1);
});

it('if the writer dies before it adds a result to the file, the next call adds the result once', async () => {
  const session = await start();
  write(session.file, 1);
  expect(await session.advance().ended).toEqual(told(4));
  const lines = readFileSync(session.file, 'utf8').split('\n');
  writeFileSync(
    session.file,
    lines
      .slice(0, 3)
      .map((line) => `${line}\n`)
      .join(''),
  );
  const ran = await Promise.all([session.advance().ended, session.advance().ended]);
  expect(ran).toEqual([told(4), told(4)]);
  expect(readFileSync(session.file, 'utf8')).toBe(lines.join('\n'));
  expect(keys().length).toBe(1);
});

it('a claim of a process that cannot be seen from here is waited for, then named with the remedy', async () => {
  const session = await start();
  write(session.file, 1);
  closeGate();
  const first = session.advance();
  await acted(1);
  const name = readdirSync(folder.file('sessions')).find((each) => each.includes('.lock.'))!;
  const lock = join(folder.file('sessions'), name);
  const [, boot, , , began] = readlinkSync(lock).split('|');
  await killed(first);
  rmSync(lock);
  symlinkSync(`${hostname()}|${boot}|pid:[1]|1|${began}`, lock);
  openGate();
  const { code, stdout, stderr } = await session.advance().ended;
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toBe(
    `error: The session is claimed by process 1 on "${hostname()}", which cannot be seen from here (another machine or container). If it has ended, remove ${lock} and try again.\n`,
  );
  expect(keys().length).toBe(1);
  rmSync(lock);
  expect(await session.advance().ended).toEqual(told(4));
});

it('defect: a pid that was given to another process does not keep a session', async () => {
  const session = await start();
  write(session.file, 1);
  closeGate();
  const first = session.advance();
  await acted(1);
  const name = readdirSync(folder.file('sessions')).find((each) => each.includes('.lock.'))!;
  const lock = join(folder.file('sessions'), name);
  const [host, boot, namespace, , began] = readlinkSync(lock).split('|');
  await killed(first);
  openGate();
  rmSync(lock);
  symlinkSync([host, boot, namespace, process.pid, began].join('|'), lock);
  expect(await session.advance().ended).toEqual(told(4));
});

it('cleanup does not take a session away from a process that advances it', async () => {
  const session = await start();
  write(session.file, 1);
  closeGate();
  const first = session.advance();
  await acted(1);
  const cleanup = ['cleanup', '--session', session.id, '--session-dir', folder.file('sessions')];
  expect(await run(cleanup).ended).toMatchObject({
    code: 1,
    stdout: '',
    stderr: `error: The session is being advanced by process ${first.child.pid} on "${hostname()}". Wait for it, or end it, and try again.\n`,
  });
  openGate();
  expect(await first.ended).toEqual(told(4));
  expect(await run(cleanup).ended).toEqual({ code: 0, stdout: '', stderr: '' });
  expect(readdirSync(folder.file('sessions'))).toEqual([]);
});

it('the default folder is 0700, and refused when it is not', async () => {
  const env = { TMPDIR: folder.path };
  const { stdout } = await run(['start', '--session', 'new'], { env }).ended;
  const dir = folder.file('skill-kit-sessions');
  expect((JSON.parse(stdout) as { file: string }).file).toMatch(new RegExp(`^${dir}/skill-kit-[a-f0-9]{32}\\.jsonl$`));
  expect(statSync(dir).mode & 0o777).toBe(0o700);
  rmSync(dir, { recursive: true });
  mkdirSync(dir, { mode: 0o755 });
  expect(await run(['start', '--session', 'new'], { env }).ended).toEqual({
    code: 1,
    stdout: '',
    stderr: `error: Refusing to use ${dir}: permissions are 755, expected 700. Run \`chmod 700 ${dir}\`.\n`,
  });
  rmSync(dir, { recursive: true });
  mkdirSync(folder.file('elsewhere'), { mode: 0o700 });
  symlinkSync(folder.file('elsewhere'), dir);
  expect(await run(['start', '--session', 'new'], { env }).ended).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('is not a folder'),
  });
});

it('defect: a history longer than an argument may be comes through a pipe', async () => {
  const history = JSON.stringify(
    Array.from({ length: 900 }, () => ({ step: 'a', response: { v: 1 }, actionResult: 'x'.repeat(200) })),
  );
  const argv = ['advance', '--step', 'a', '--output', '{"v":1}'];
  const failed = await new Promise((resolve) =>
    execFile(process.execPath, [folder.file('skill.mjs'), ...argv, '--history', history], resolve).on(
      'error',
      () => undefined,
    ),
  ).catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: 'E2BIG' });
  const { code, stdout } = await run([...argv, '--history', '-'], { stdin: history }).ended;
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ kind: 'prompt', step: 'a', completed: { actionResult: 'acted' } });
});

it('what an action prints is no part of the answer', async () => {
  writeFileSync(
    folder.file('skill.mjs'),
    SKILL.replace(
      'const act = async',
      "const act = async (context) => (console.log('noise'), acting(context));\n  const acting = async",
    ),
  );
  const { code, stdout, stderr } = await run(['advance', '--step', 'a', '--output', '{"v":1}']).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: 'noise\n' });
  expect(JSON.parse(stdout)).toMatchObject({ kind: 'prompt', step: 'a' });
});

it('mcp serves the skill, and its library is loaded only then', async () => {
  const hello = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
  const { code, stdout } = await run(['mcp'], {
    stdin: `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: hello })}\n`,
  }).ended;
  expect({ code, answer: JSON.parse(stdout) as unknown }).toMatchObject({
    code: 0,
    answer: { result: { serverInfo: { name: 'acting' } } },
  });
});

it('a promise that is never settled is an error, not a silent success', async () => {
  expect(await run(['advance', '--step', 'a', '--output', '{"v":0}']).ended).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('never'),
  });
});

it('a result that cannot be written is an error of one line', async () => {
  const said = (command: string): Promise<string> =>
    new Promise((resolve) =>
      execFile('sh', ['-c', command, process.execPath, folder.file('skill.mjs')], (_error, _stdout, stderr) =>
        resolve(stderr),
      ),
    );
  expect(await said('"$0" "$1" start > /dev/full')).toMatch(
    /^error: the result cannot be written to standard output: ENOSPC[^\n]*\n$/,
  );
  expect(await said('"$0" "$1" start | true')).toMatch(
    /^error: the result cannot be written to standard output: write EPIPE\n$/,
  );
});

it('defect: starting a skill that only uses zod loads no ArkType', async () => {
  const env = { NODE_V8_COVERAGE: folder.file('coverage') };
  expect((await run(['start'], { env }).ended).code).toBe(0);
  const [name = ''] = readdirSync(folder.file('coverage'));
  const { result } = JSON.parse(readFileSync(join(folder.file('coverage'), name), 'utf8')) as {
    result: { url: string }[];
  };
  const loaded = (library: string): boolean => result.some(({ url }) => url.includes(`/node_modules/${library}/`));
  expect([
    loaded('zod'),
    loaded('arktype'),
    loaded('@ark'),
    loaded('commander'),
    loaded('@modelcontextprotocol'),
  ]).toEqual([true, false, false, false, false]);
});

it('refuses a history that never ends, as a file and on standard input', async () => {
  const ask = ['advance', '--step', 'a', '--output', '{"v":1}'];
  const why = 'cannot be read: it has more than 256 MiB.';
  const device = await run([...ask, '--history-file', '/dev/zero']).ended;
  expect(device).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('it is a device and no file') });
  const endless = run([...ask, '--history', '-'], { stdin: createReadStream('/dev/zero') });
  expect(await endless.ended).toEqual({
    code: 1,
    stdout: '',
    stderr: `error: --history (standard input) ${why} Pass JSON that ends.\n`,
  });
});

it.each([
  ['--history', ['advance', '--step', 'a', '--output', '{"v":1}', '--history', '-']],
  ['--params', ['start', '--params-file', '-']],
])('refuses a folder as standard input, with %s and its remedy', (flag, argv) => {
  const stdin = openSync(folder.path, 'r');
  const { status, stdout, stderr } = spawnSync(process.execPath, [folder.file('skill.mjs'), ...argv], {
    env: { PATH: process.env['PATH'] },
    stdio: [stdin, 'pipe', 'pipe'],
    encoding: 'utf8',
    timeout: 60_000,
  });
  closeSync(stdin);
  expect({ status, stdout, stderr }).toEqual({
    status: 2,
    stdout: '',
    stderr: `error: ${flag} (standard input) cannot be read: it is a folder. Use a file or a pipe: \`< FILE\`, not \`< FOLDER\`.\n`,
  });
});

it('refuses a named pipe as a file at once, and reads the pipe of a shell', async () => {
  const end = makeBlockingPipe(folder.file('pipe'));
  const startedMs = Date.now();
  const pipe = await run(['advance', '--step', 'a', '--history', '[]', '--output-file', folder.file('pipe')]).ended;
  end();
  expect(pipe).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('it is a pipe and no file') });
  expect(Date.now() - startedMs).toBeLessThan(PIPE_ENDS_MS);
  const line = '"$0" "$1" advance --step a --history "[]" --output-file <(printf \'{"v":-1}\')';
  const { stdout } = await promisify(execFile)('bash', ['-c', line, process.execPath, folder.file('skill.mjs')]);
  expect(readFileSync(folder.file('keys'), 'utf8')).toContain('{"v":-1}');
  expect(stdout).toContain('end');
});

it('what agents wrote reaches no terminal as a control sequence', async () => {
  const history = '[{"step":"a\\u001b]0;title\\u0007\\u202e","response":1}]';
  const { stderr } = await run(['advance', '--step', 'a', '--output', '\u001b[2Jno JSON', '--history', history]).ended;
  expect(stderr).toMatch(/^error: --output is not JSON \([^)]*\): no JSON\n$/);
  const skipped = await run(['advance', '--step', 'a', '--output', '{"v":1}', '--history', history]).ended;
  expect(skipped).toMatchObject({ code: 0, stderr: '[skill-kit] skipping history entry of unknown step "a\ufffd"\n' });
});
