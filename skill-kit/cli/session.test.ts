import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { MigrationConfig, SkillDefinition } from '../../domain/step-machine/definition.ts';
import {
  linesOf,
  type Ran,
  runCommand,
  type Surroundings,
  TemporaryFolder,
} from '../../test/rig/skills/skill-command.ts';
import { skill, terminal, z } from '../index.bundled.ts';

let folder: TemporaryFolder;
beforeEach(() => {
  folder = new TemporaryFolder();
});
afterEach(() => {
  vi.useRealTimers();
  folder[Symbol.dispose]();
});

const two = skill({ name: 'two', entry: 'a', params: z.object({ who: z.string().default('you') }) })
  .step('a', { prompt: ({ params }) => `Hello ${params.who}`, response: z.object({ v: z.number() }), next: 'b' })
  .step('b', { prompt: ({ store }) => `Had ${store.steps.a.v}`, next: terminal })
  .build();

class Client {
  readonly definition: SkillDefinition;
  readonly dir: readonly string[];
  id = '';
  file = '';

  constructor(definition: SkillDefinition) {
    this.definition = definition;
    this.dir = ['--session-dir', folder.path];
  }

  static async start(
    definition: SkillDefinition,
    argv: readonly string[] = [],
    around?: Surroundings,
  ): Promise<Client> {
    const client = new Client(definition);
    const { code, stdout, stderr } = await runCommand(
      definition,
      ['start', '--session', 'new', ...client.dir, ...argv],
      around,
    );
    if (code !== 0 || !/^\{"sessionId":"[a-f0-9]{32}","file":"[^"]*","line":2\}\n$/.test(stdout))
      throw new Error(`start: ${code} ${stdout} ${stderr}`);
    const started = JSON.parse(stdout) as { sessionId: string; file: string };
    client.id = started.sessionId;
    client.file = started.file;
    return client;
  }

  /** As an agent does in file mode. */
  write(step: string, output: unknown, end = '\n'): void {
    appendFileSync(this.file, `${JSON.stringify({ type: 'output', step, output })}${end}`);
  }

  advance(
    argv: readonly string[] = [],
    { definition = this.definition, ...around }: Surroundings & { readonly definition?: SkillDefinition } = {},
  ): Promise<Ran> {
    return runCommand(definition, ['advance', '--session', this.id, ...this.dir, ...argv], around);
  }

  async answer(step: string, output: unknown): Promise<Ran> {
    this.write(step, output);
    return this.advance();
  }

  flag(step: string, output: unknown): Promise<Ran> {
    return this.advance(['--step', step, '--output', JSON.stringify(output)]);
  }

  line(number: number): Record<string, unknown> {
    return linesOf(this.file)[number - 1]!;
  }
}

const told = (line: number): Ran => ({ code: 0, stdout: `${line}\n`, stderr: '' });

it('a session in file mode: header, results and outputs at lines 2, 4, 6', async () => {
  const client = await Client.start(two, [
    '--params',
    '{"who":"me"}',
    '--host',
    'codex',
    '--tools',
    'a,b',
    '--subagent',
  ]);
  expect(await client.answer('a', { v: 7 })).toEqual(told(4));
  expect(await client.answer('b', {})).toEqual(told(6));
  expect(linesOf(client.file).map(({ type }) => type)).toEqual([
    'header',
    'prompt',
    'output',
    'prompt',
    'output',
    'done',
  ]);
  const { sessionId, createdAt, ...header } = client.line(1);
  expect(Object.keys(client.line(1))).toEqual([
    'type',
    'sessionId',
    'skill',
    'host',
    'tools',
    'isSubagent',
    'params',
    'createdAt',
    'outputMode',
  ]);
  expect(header).toEqual({
    type: 'header',
    skill: 'two',
    host: 'codex',
    tools: ['a', 'b'],
    isSubagent: true,
    params: { who: 'me' },
    outputMode: 'file',
  });
  expect(sessionId).toBe(client.id);
  expect(new Date(createdAt as string).getTime()).toBeGreaterThan(0);
  expect(Object.keys(client.line(2))).toEqual(['type', 'kind', 'step', 'preamble', 'prompt', 'schema']);
  expect(client.line(4)).toEqual({
    type: 'prompt',
    kind: 'prompt',
    step: 'b',
    prompt: '<prompt>\nHad 7\n</prompt>',
    schema: null,
    completed: { step: 'a', response: { v: 7 }, result: { v: 7 } },
  });
  expect(client.line(6)).toMatchObject({ type: 'done', kind: 'done', done: true });
});

it('a session in flag mode: outputs are written for the client', async () => {
  const client = await Client.start(two, ['--output-mode', 'flag']);
  expect(await client.flag('a', { v: 7 })).toEqual(told(4));
  expect(client.line(3)).toEqual({ type: 'output', step: 'a', output: { v: 7 } });
  expect(await client.advance()).toEqual({
    code: 1,
    stdout: '',
    stderr: 'error: --step and --output are required for advance in flag mode\n',
  });
  expect(await client.advance(['--step', 'b'])).toMatchObject({
    code: 1,
    stderr: 'error: --step and --output are required for advance in flag mode\n',
  });
  expect(await client.flag('b', {})).toEqual(told(6));
});

it('file mode takes --step and --output as well, and the last of several outputs; its last line may lack a newline', async () => {
  const client = await Client.start(two);
  expect(await client.advance()).toEqual({
    code: 1,
    stdout: '',
    stderr: 'error: no output found in session file. Write your output to the session file before advancing.\n',
  });
  client.write('a', { v: 'wrong' });
  client.write('a', { v: 8 }, '');
  expect(await client.advance()).toEqual(told(5));
  expect(client.line(5)).toMatchObject({ prompt: '<prompt>\nHad 8\n</prompt>' });
  expect(await client.flag('b', {})).toEqual(told(7));
});

it('a line that was meant to be an output is named, with what is wrong', async () => {
  const client = await Client.start(two);
  appendFileSync(client.file, '{"type":"output","step":"a","output":\n');
  expect(await client.advance()).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/^error: Line 3 is not an output: it is not JSON .*"output":…\}\.\n$/),
  });
  appendFileSync(client.file, '{"type":"output","output":1}\n');
  expect(await client.advance()).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('Line 4 is not an output: it has no `step`'),
  });
});

it('a refused answer is a line of its own, and the step can be answered again', async () => {
  const client = await Client.start(two);
  expect(await client.answer('a', { v: 'x' })).toEqual(told(4));
  expect(client.line(4)).toMatchObject({ type: 'error', kind: 'error', error: 'validation', step: 'a', retry: true });
  expect(await client.answer('a', { v: 1 })).toEqual(told(6));
});

const files = (): string[] => readdirSync(folder.path);

it('files are 0600, and cleanup removes them all, as often as one likes', async () => {
  const client = await Client.start(two);
  await client.answer('a', { v: 7 });
  expect(files().length).toBe(3);
  for (const name of files()) expect([name, statSync(folder.file(name)).mode & 0o777]).toEqual([name, 0o600]);
  for (let times = 0; times < 2; times++) {
    expect(await runCommand(two, ['cleanup', '--session', client.id, ...client.dir])).toEqual({
      code: 0,
      stdout: '',
      stderr: '',
    });
    expect(files()).toEqual([]);
  }
  expect(await client.advance()).toEqual({
    code: 1,
    stdout: '',
    stderr: `error: session "${client.id}" not found at ${client.file}. Start a new session with --session new.\n`,
  });
});

it('defect: a session id that leads elsewhere is refused', async () => {
  writeFileSync(join(folder.path, 'precious.jsonl'), 'keep');
  mkdirSync(folder.file('in'), { mode: 0o700 });
  for (const command of ['cleanup', 'advance']) {
    const ran = await runCommand(two, [command, '--session', '/../../precious', '--session-dir', folder.file('in')]);
    expect(ran).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('is not a session id') });
  }
  expect(existsSync(folder.file('precious.jsonl'))).toBe(true);
});

it('defect: --session-dir is checked too: a folder where others can write is refused', async () => {
  chmodSync(folder.path, 0o770);
  const ran = await runCommand(two, ['start', '--session', 'new', '--session-dir', folder.path]);
  expect(ran).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining(
      `permissions are 770, so others can write there. Run \`chmod go-w ${folder.path}\``,
    ),
  });
  expect(files()).toEqual([]);
});

it('only its owner can use a folder made for sessions', async () => {
  const dir = folder.file('deep/er');
  expect(await runCommand(two, ['start', '--session', 'new', '--session-dir', dir])).toMatchObject({ code: 0 });
  expect(statSync(dir).mode & 0o777).toBe(0o700);
});

it('defect: a link in the place of a session file is not followed', async () => {
  const client = await Client.start(two);
  const target = folder.file('elsewhere');
  writeFileSync(target, 'untouched');
  const other = 'f'.repeat(32);
  writeFileSync(folder.file(`skill-kit-${other}.state`), readFileSync(folder.file(`skill-kit-${client.id}.state`)));
  symlinkSync(target, folder.file(`skill-kit-${other}.jsonl`));
  client.id = other;
  expect(await client.flag('a', { v: 1 })).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('it is a link'),
  });
  expect(readFileSync(target, 'utf8')).toBe('untouched');
});

it('a wrong output mode, and an id where new is due, are a wrong command line', async () => {
  expect(
    await runCommand(two, ['start', '--session', 'new', '--output-mode', 'fiel', '--session-dir', folder.path]),
  ).toMatchObject({ code: 2, stdout: '' });
  expect(await runCommand(two, ['start', '--session', 'f'.repeat(32), '--session-dir', folder.path])).toMatchObject({
    code: 2,
    stdout: '',
  });
  expect(files()).toEqual([]);
});

interface Acting {
  readonly definition: SkillDefinition;
  readonly keys: string[];
}

/** Answers of `a` report what its action does. */
function acting(act: (calls: number) => Promise<unknown> = async (calls) => calls): Acting {
  const keys: string[] = [];
  const definition = skill({ name: 'acting', entry: 'a' })
    .step('a', {
      prompt: 'A',
      response: z.object({ v: z.number() }),
      action: ({ idempotencyKey }) => act(keys.push(idempotencyKey)),
      maxVisits: 1_000,
      next: ({ response }) => (response.v < 0 ? 'end' : 'self'),
    })
    .step('end', { prompt: 'E', next: terminal })
    .build();
  return { definition, keys };
}

it('defect: advancing twice for one output answers the same and acts once', async () => {
  const { definition, keys } = acting();
  const client = await Client.start(definition);
  expect(await client.answer('a', { v: 1 })).toEqual(told(4));
  expect(await client.advance()).toEqual(told(4));
  expect(keys.length).toBe(1);
  expect(linesOf(client.file).length).toBe(4);
  expect(await client.answer('a', { v: 1 })).toEqual(told(6));
  expect(keys.length).toBe(2);
  expect(new Set(keys).size).toBe(2);
});

it('in flag mode too, a repeated output gets the same answer, unless the step is due once more', async () => {
  const client = await Client.start(two, ['--output-mode', 'flag']);
  for (let i = 0; i < 2; i++) expect(await client.flag('a', { v: 1 })).toEqual(told(4));
  expect(await client.flag('a', { v: 2 })).toEqual(told(6));
  expect(client.line(6)).toMatchObject({
    error: 'order',
    message: 'Step "a" is not the current step. Answer "b" instead.',
  });
  for (let i = 0; i < 2; i++) expect(await client.flag('b', {})).toEqual(told(8));
  expect(linesOf(client.file).length).toBe(8);
  const { definition, keys } = acting();
  const looping = await Client.start(definition, ['--output-mode', 'flag']);
  expect([await looping.flag('a', { v: 1 }), await looping.flag('a', { v: 1 })]).toEqual([told(4), told(6)]);
  expect(keys.length).toBe(2);
});

const later = (): { readonly promise: Promise<void>; readonly resolve: () => void } => {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
};

it('defect: advancing at the same time for one output answers the same and acts once', async () => {
  const gate = later();
  const { definition, keys } = acting(() => gate.promise);
  const client = await Client.start(definition);
  client.write('a', { v: 1 });
  const both = [client.advance(), client.advance(), client.advance()];
  await expect.poll(() => keys.length).toBe(1);
  gate.resolve();
  expect(await Promise.all(both)).toEqual([told(4), told(4), told(4)]);
  expect(keys.length).toBe(1);
  expect(linesOf(client.file).length).toBe(4);
});

it('in flag mode two calls at the same time are one answer when they say the same; of different ones the later is refused', async () => {
  const gate = later();
  const { definition, keys } = acting(() => gate.promise);
  const client = await Client.start(definition, ['--output-mode', 'flag']);
  const same = [client.flag('a', { v: 1 }), client.flag('a', { v: 1 })];
  await expect.poll(() => keys.length).toBe(1);
  const other = client.flag('a', { v: 2 });
  gate.resolve();
  expect(await Promise.all(same)).toEqual([told(4), told(4)]);
  expect(await other).toEqual(told(6));
  expect(client.line(6)).toMatchObject({
    kind: 'error',
    error: 'order',
    step: 'a',
    message: expect.stringMatching(/^Turn \d+ of step "a" has ended/),
  });
  expect(keys.length).toBe(1);
});

it('an output that was written before the open prompt was is not taken for an answer to it', async () => {
  const gate = later();
  const { definition, keys } = acting(() => gate.promise);
  const client = await Client.start(definition);
  const first = client.answer('a', { v: 1 });
  await expect.poll(() => keys.length).toBe(1);
  client.write('a', { v: 2 });
  gate.resolve();
  expect(await first).toEqual(told(5));
  expect(await client.advance()).toEqual(told(6));
  expect(client.line(6)).toMatchObject({ kind: 'error', error: 'order' });
  expect(keys.length).toBe(1);
});

it('defect: a failed action leaves a trace, and the same output tries again under another key', async () => {
  const { definition, keys } = acting(async (calls) => {
    if (calls === 1) throw new Error('boom');
  });
  const client = await Client.start(definition);
  expect(await client.answer('a', { v: 1 })).toEqual({
    code: 1,
    stdout: '',
    stderr: 'error: The action of step "a" failed: boom\n',
  });
  expect(client.line(4)).toMatchObject({ kind: 'error', error: 'action', step: 'a', retry: true });
  expect(await client.advance()).toEqual(told(5));
  expect(client.line(5)).toMatchObject({ kind: 'prompt', step: 'a', completed: { step: 'a' } });
  expect(keys.length).toBe(2);
  expect(keys[0]).not.toBe(keys[1]);
});

it('a caller that waited for a failed action gets the failure, and does not retry', async () => {
  const gate = later();
  const { definition, keys } = acting(async () => {
    await gate.promise;
    throw new Error('boom');
  });
  const client = await Client.start(definition);
  client.write('a', { v: 1 });
  const both = [client.advance(), client.advance()];
  await expect.poll(() => keys.length).toBe(1);
  gate.resolve();
  const failed = { code: 1, stdout: '', stderr: 'error: The action of step "a" failed: boom\n' };
  expect(await Promise.all(both)).toEqual([failed, failed]);
  expect(keys.length).toBe(1);
});

it('a failed action of a step without a prompt is tried again by advancing', async () => {
  let calls = 0;
  const definition = skill({ name: 'gate', entry: 'a' })
    .step('a', { prompt: 'A', next: 'act' })
    .step('act', { action: async () => (++calls === 1 ? Promise.reject(new Error('boom')) : calls), next: 'b' })
    .step('b', { prompt: 'B', next: terminal })
    .build();
  const client = await Client.start(definition);
  expect(await client.answer('a', {})).toMatchObject({
    code: 1,
    stderr: 'error: The action of step "act" failed: boom\n',
  });
  expect(await client.advance()).toEqual(told(5));
  expect(client.line(5)).toMatchObject({ kind: 'prompt', step: 'b' });
});

it('defect: steps without a prompt are saved and counted once', async () => {
  const definition = skill({
    name: 'gated',
    entry: 'p0',
    stores: { count: z.object({ p1: z.number(), p0: z.number() }) },
  })
    .step('p0', { save: ({ store }) => ({ count: { p0: (store.count?.p0 ?? 0) + 1 } }), next: 'a' })
    .step('a', { prompt: 'A', next: 'p1' })
    .step('p1', { save: ({ store }) => ({ count: { p1: (store.count?.p1 ?? 0) + 1 } }), next: 'b' })
    .step('b', { prompt: 'B', next: 'c' })
    .step('c', {
      prompt: ({ store }) => `${JSON.stringify(store.count)} ${store.steps.history.map(({ step }) => step).join(' ')}`,
      next: terminal,
    })
    .build();
  const client = await Client.start(definition);
  expect(client.line(2)).toMatchObject({ autoAdvanced: [{ step: 'p0' }] });
  expect(await client.answer('a', {})).toEqual(told(4));
  expect(client.line(4)).toMatchObject({ completed: { step: 'a' }, autoAdvanced: [{ step: 'p1' }] });
  expect(await client.answer('b', {})).toEqual(told(6));
  expect(client.line(6)).toMatchObject({ prompt: '<prompt>\n{"p0":1,"p1":1} p0 a p1 b\n</prompt>' });
});

it('defect: an answer to a step that is not due is refused', async () => {
  const client = await Client.start(two);
  expect(await client.answer('b', {})).toEqual(told(4));
  expect(client.line(4)).toMatchObject({ kind: 'error', error: 'order', step: 'b' });
  await client.answer('a', { v: 1 });
  expect(await client.answer('b', {})).toEqual(told(8));
  expect(await client.answer('b', {})).toEqual(told(10));
  expect(client.line(10)).toMatchObject({ kind: 'done' });
});

it('defect: a session of another skill is refused', async () => {
  const client = await Client.start(two);
  const other = skill({ name: 'other', entry: 'a' }).step('a', { prompt: 'A', next: terminal }).build();
  client.write('a', { v: 1 });
  const message = `error: Session "${client.id}" belongs to skill "two", not to "other".\n`;
  expect(await client.advance([], { definition: other })).toEqual({ code: 1, stdout: '', stderr: message });
  expect(await client.advance()).toEqual(told(4));
});

function versioned(version: string, migrations: readonly MigrationConfig[] = []): SkillDefinition {
  const built = skill({ name: 'versioned', version, entry: 'a' })
    .step(version === '1.0.0' ? 'old' : 'new', { prompt: 'O', response: z.object({ v: z.number() }), next: 'b' })
    .step('a', { prompt: 'A', next: version === '1.0.0' ? 'old' : 'new' })
    .step('b', { prompt: ({ store }) => `${store.steps.history.map(({ step }) => step).join(' ')}`, next: terminal })
    .build();
  return { ...built, migrations };
}

it('defect: a session of another version is refused, unless the skill declares how to continue it', async () => {
  const client = await Client.start(versioned('1.0.0'));
  await client.answer('a', {});
  await client.answer('old', { v: 1 });
  client.write('b', {});
  expect(await client.advance([], { definition: versioned('2.0.0') })).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('was begun with version 1.0.0'),
  });
  const migrating = versioned('2.0.0', [{ from: '1.0.0', renamedSteps: { old: 'new' } }]);
  expect(await client.advance([], { definition: migrating })).toEqual(told(8));
});

it('records of before a migration have their new names', async () => {
  const client = await Client.start(versioned('1.0.0'));
  await client.answer('a', {});
  const migrating = versioned('2.0.0', [{ from: '1.0.0', renamedSteps: { old: 'new' } }]);
  client.write('new', { v: 1 });
  expect(await client.advance([], { definition: migrating })).toEqual(told(6));
  expect(client.line(6)).toMatchObject({ prompt: '<prompt>\na new\n</prompt>' });
});

it('defect: a session of other code of the same version is refused', async () => {
  const script = folder.file('skill.mjs');
  writeFileSync(script, '1');
  const client = await Client.start(two, [], { script });
  client.write('a', { v: 1 });
  writeFileSync(script, '2');
  expect(await client.advance([], { script })).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('was begun with other code of version 0.0.0'),
  });
  writeFileSync(script, '1');
  expect(await client.advance([], { script })).toEqual(told(4));
});

it('defect: a sub-skill in a session keeps its params', async () => {
  const sub = skill({ name: 'sub', entry: 'x', params: z.object({ topic: z.string() }) })
    .step('x', { prompt: ({ params }) => `About ${params.topic}`, next: 'y' })
    .step('y', { prompt: ({ params }) => `Still about ${params.topic}`, next: terminal })
    .build();
  const composite = skill({ name: 'composite', entry: 'pick' })
    .step('pick', { prompt: 'Pick', response: z.object({ to: z.string() }), next: 'subskill:sub' })
    .subskill('sub', sub, { params: (response) => ({ topic: (response as { to: string }).to }) })
    .build();
  const client = await Client.start(composite);
  expect(await client.answer('pick', { to: 'cats' })).toEqual(told(4));
  expect(client.line(4)).toMatchObject({ step: 'sub/x', prompt: '<prompt>\nAbout cats\n</prompt>' });
  expect(await client.answer('sub/x', {})).toEqual(told(6));
  expect(client.line(6)).toMatchObject({ step: 'sub/y', prompt: '<prompt>\nStill about cats\n</prompt>' });
  expect(await client.answer('sub/y', {})).toEqual(told(8));
  expect(client.line(8)).toMatchObject({ kind: 'done' });
});

it('defect: observers hear each fact once, however many processes a session goes through', async () => {
  const heard: string[] = [];
  const definition = skill({
    name: 'observed',
    entry: 'a',
    observers: {
      onStepStart: ({ step }) => void heard.push(`start ${step}`),
      onStepComplete: ({ step }) => void heard.push(`complete ${step}`),
      onSkillComplete: ({ path }) => void heard.push(`done ${path.join(' ')}`),
    },
  })
    .step('a', { prompt: 'A', next: 'b' })
    .step('b', { prompt: 'B', next: terminal })
    .build();
  const client = await Client.start(definition);
  await client.answer('a', {});
  await client.answer('b', {});
  expect(heard).toEqual(['start a', 'complete a', 'start b', 'complete b', 'done a b']);
});

it('a wait continues when its time has come, and not before', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  const definition = skill({ name: 'resting', entry: 'a' })
    .step('a', { prompt: 'A', next: 'rest' })
    .step('rest', { wait: { durationMs: 3_600_000 }, next: 'b' })
    .step('b', { prompt: 'B', next: terminal })
    .build();
  const client = await Client.start(definition, ['--output-mode', 'flag']);
  expect(await client.flag('a', {})).toEqual(told(4));
  expect(client.line(4)).toMatchObject({
    type: 'waiting',
    kind: 'waiting',
    step: 'rest',
    dueMs: Date.now() + 3_600_000,
  });
  expect(await client.advance()).toEqual(told(4));
  vi.setSystemTime(Date.now() + 3_600_000);
  expect(await client.advance()).toEqual(told(5));
  expect(client.line(5)).toMatchObject({ kind: 'prompt', step: 'b', completed: { step: 'rest' } });
});

it('a person who does not answer in time is passed over', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  const definition = skill({ name: 'approval', entry: 'ask' })
    .step('ask', { prompt: 'May I?', human: { deadlineMs: 1_000, onExpiry: 'late' }, next: terminal })
    .step('late', { prompt: 'Too late', next: terminal })
    .build();
  const client = await Client.start(definition);
  vi.setSystemTime(Date.now() + 1_000);
  expect(await client.advance()).toEqual(told(3));
  expect(client.line(3)).toMatchObject({ kind: 'prompt', step: 'late' });
  expect(await client.advance()).toEqual(told(3));
});

it('a session file that an editor rewrote is read by its lines', async () => {
  const client = await Client.start(two);
  await client.answer('a', { v: 7 });
  const text = readFileSync(client.file, 'utf8').replace('"host":"generic"', '"host": "generic"');
  writeFileSync(client.file, `${text}${JSON.stringify({ type: 'output', step: 'b', output: {} })}\n`);
  expect(await client.advance()).toEqual(told(6));
  expect(client.line(6)).toMatchObject({ kind: 'done' });
});

it.each([
  ['to nothing', () => ''],
  ['in the middle of a line', (text: string) => text.slice(0, text.indexOf('\n') + 20)],
  ['after its header', (text: string) => text.slice(0, text.indexOf('\n') + 1)],
])('a session file that was cut %s still works, and lines keep their numbers', async (_how, cut) => {
  const client = await Client.start(two);
  expect(await client.answer('a', { v: 7 })).toEqual(told(4));
  writeFileSync(client.file, cut(readFileSync(client.file, 'utf8')));
  expect(await client.advance()).toEqual(told(4));
  expect(JSON.parse(readFileSync(client.file, 'utf8').split('\n')[3]!)).toMatchObject({ type: 'prompt', step: 'b' });
  expect(await client.answer('b', {})).toEqual(told(6));
  expect(readdirSync(folder.path).filter((name) => name.includes('.lock.'))).toEqual([]);
});

it.each([
  ['', /is damaged \(Unexpected end/],
  ['null', /is damaged \(it has no format\)/],
  ['{"format":9}', /has format 9, and this skill reads 1/],
  ['{"format":1,"state":{}}', /is damaged \(parts of it are missing\)\. Start a new session with --session new\./],
])('a state that says %j is named', async (text, message) => {
  const client = await Client.start(two);
  writeFileSync(client.file.replace('.jsonl', '.state'), text);
  expect(await client.advance()).toEqual({ code: 1, stdout: '', stderr: expect.stringMatching(message) });
});

it('the error names a folder for sessions that is a file or cannot be made, and the flag', async () => {
  writeFileSync(folder.file('file'), '');
  const start = (dir: string): Promise<Ran> => runCommand(two, ['start', '--session', 'new', '--session-dir', dir]);
  expect((await start(folder.file('file'))).stderr).toMatch(
    /^error: Refusing to use .*file: it is not a folder\. Name another with --session-dir\.\n$/,
  );
  expect((await start(folder.file('file/below'))).stderr).toMatch(
    /^error: .*file\/below cannot be made: ENOTDIR.* Name another with --session-dir\.\n$/,
  );
  expect((await start('/proc/none/sessions')).stderr).toMatch(
    /^error: \/proc\/none\/sessions cannot be made: .* Name another with --session-dir\.\n$/,
  );
  symlinkSync('nothing', folder.file('link'));
  expect((await start(folder.file('link'))).stderr).toMatch(
    /^error: Refusing to use .*link: it is a broken link\. Name another with --session-dir\.\n$/,
  );
  expect((await start(folder.file('some/folders/below'))).code).toBe(0);
});

it('defect: an advance reads as much of a long session as of a short one', async () => {
  const definition = skill({ name: 'long', entry: 'a', stores: { seen: z.object({ last: z.number() }) } })
    .step('a', {
      prompt: 'A',
      response: z.object({ note: z.string() }),
      maxVisits: 1e6,
      save: () => ({ seen: { last: 1 } }),
      next: 'self',
    })
    .build();
  const client = await Client.start(definition, ['--output-mode', 'flag']);
  const sizes: number[] = [];
  for (let i = 0; i < 300; i++) {
    expect(await client.flag('a', { note: 'x'.repeat(100) })).toEqual(told(4 + 2 * i));
    sizes.push(statSync(folder.file(`skill-kit-${client.id}.state`)).size);
  }
  // Only numbers grow.
  expect(sizes[299]! - sizes[9]!).toBeLessThan(32);
  const { place } = JSON.parse(readFileSync(folder.file(`skill-kit-${client.id}.state`), 'utf8')) as {
    place: { offset: number };
  };
  expect(statSync(client.file).size - place.offset).toBeLessThan(2_048);
});

it('refuses an answer that is nested too deep, however it is handed in', async () => {
  const any = skill({ name: 'any', entry: 'a' })
    .step('a', { prompt: 'A', response: z.unknown(), next: terminal })
    .build();
  const client = await Client.start(any);
  const deep = '['.repeat(20_000) + ']'.repeat(20_000);
  const message = 'more than 500 levels of nested objects and arrays. Nest the values less.';
  expect(await client.advance(['--step', 'a', '--output', deep])).toEqual({
    code: 1,
    stdout: '',
    stderr: `error: --output has ${message}\n`,
  });
  appendFileSync(client.file, `{"type":"output","step":"a","output":${deep}}\n`);
  expect(await client.advance()).toEqual(told(4));
  expect(client.line(4)).toMatchObject({
    kind: 'error',
    error: 'validation',
    retry: true,
    message: `the answer has ${message}`,
  });
  expect(await client.answer('a', [[1]])).toEqual(told(6));
  expect(client.line(6)).toMatchObject({ kind: 'done', finalOutput: [[1]] });
});

it.each(['jsonl', 'state', 'records-2.jsonl'])(
  'a call neither waits for nor follows something else at the path of its .%s',
  async (ending) => {
    const made = async (put: (path: string) => void): Promise<Ran> => {
      const client = await Client.start(two, ['--output-mode', 'flag']);
      expect(await client.flag('a', { v: 1 })).toEqual(told(4));
      const path = client.file.replace(/jsonl$/, ending);
      renameSync(path, folder.file('elsewhere'));
      put(path);
      return client.flag('b', {});
    };
    const refused = (what: string): unknown =>
      expect.objectContaining({
        code: 1,
        stdout: '',
        stderr: expect.stringMatching(new RegExp(`^error: Refusing to use .*${ending}: it is ${what}\\. Start a new`)),
      });
    expect(await made((path) => execFileSync('mkfifo', ['-m', '600', path]))).toEqual(refused('not a file'));
    expect(await made((path) => symlinkSync('elsewhere', path))).toEqual(refused('a link'));
    expect(await made((path) => mkdirSync(path))).toEqual(refused('(a folder|not a file)'));
  },
);

it('a file in the place of a claim is named, with what to do about it', async () => {
  const client = await Client.start(two, ['--output-mode', 'flag']);
  const claim = client.file.replace(/jsonl$/, 'lock.2.0');
  writeFileSync(claim, '');
  const stderr = `error: ${claim} is not a claim on the session. Remove it and try again.\n`;
  expect(await client.flag('a', { v: 1 })).toEqual({ code: 1, stdout: '', stderr });
  rmSync(claim);
  expect(await client.flag('a', { v: 1 })).toEqual(told(4));
});
