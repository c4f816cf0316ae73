import { writeFileSync, mkdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import { runCommand, TemporaryFolder, type Surroundings } from '../../test/rig/skills/skill-command.ts';
import type { SkillDefinition, StepResult } from '../../domain/step-machine/definition.ts';
import { act, skill, terminal, z } from '../index.bundled.ts';

const two = skill({ name: 'two', version: '1.2.0', entry: 'a', params: z.object({ who: z.string() }) })
  .step('a', { prompt: ({ params }) => `Hello ${params.who}`, response: z.object({ v: z.number() }), next: 'b' })
  .step('b', { prompt: ({ store }) => `Had ${store.steps.a.v}`, next: terminal })
  .build();

interface Printed {
  readonly kind: string;
  readonly step: string;
  readonly prompt: string;
  readonly preamble?: string;
  readonly message: string;
  readonly finalOutput: unknown;
  readonly completed?: StepResult;
  readonly autoAdvanced?: readonly StepResult[];
}

async function json(definition: SkillDefinition, argv: readonly string[], around?: Surroundings): Promise<Printed> {
  const { code, stdout, stderr } = await runCommand(definition, argv, around);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout.endsWith('\n')).toBe(true);
  expect(stdout.trimEnd()).not.toContain('\n');
  return JSON.parse(stdout) as Printed;
}

it('start prints one line with its keys in order', async () => {
  const started = await json(two, ['start', '--params', '{"who":"you"}']);
  expect(Object.keys(started)).toEqual(['kind', 'step', 'preamble', 'prompt', 'schema']);
  expect(started).toMatchObject({ kind: 'prompt', step: 'a', prompt: '<prompt>\nHello you\n</prompt>' });
});

it('flags without a command mean start', async () => {
  expect(await json(two, ['--params', '{"who":"you"}'])).toEqual(
    await json(two, ['start', '--params', '{"who":"you"}']),
  );
});

it('advance prints what was completed and what comes next; the end is done', async () => {
  const params = ['--params', '{"who":"you"}'];
  const { stdout } = await runCommand(two, ['advance', ...params, '--step', 'a', '--output', '{"v":7}']);
  expect(stdout).toBe(
    '{"kind":"prompt","step":"b","prompt":"<prompt>\\nHad 7\\n</prompt>","schema":null,"completed":{"step":"a","response":{"v":7},"result":{"v":7}}}\n',
  );
  const history = JSON.stringify([(JSON.parse(stdout) as Printed).completed]);
  const done = await runCommand(two, ['advance', ...params, '--step', 'b', '--output', '{}', '--history', history]);
  expect(done.stdout).toBe(
    '{"kind":"done","done":true,"finalOutput":{},"completed":{"step":"b","response":{},"result":{}}}\n',
  );
});

it('a refused answer is a result, exit 0', async () => {
  const { code, stdout } = await runCommand(two, [
    'advance',
    '--params',
    '{"who":"you"}',
    '--step',
    'a',
    '--output',
    '{"v":"x"}',
  ]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^\{"kind":"error","error":"validation","step":"a","message":"v: [^"]*","retry":true\}\n$/);
});

it.each([
  [['advance'], '--step is required for advance'],
  [['advance', '--step', 'a'], '--output is required for advance'],
  [['cleanup'], '--session is required for cleanup'],
  [['start'], 'Invalid params for skill "two": who: '],
  [['start', '--params', '{"who"'], '--params is not JSON'],
  [['start', '--params', '{"who":18446744073709551615}'], '--params has the number 18446744073709551615, which has no'],
])('%j: an error on stderr, exit 1', async (argv, message) => {
  const { code, stdout, stderr } = await runCommand(two, argv);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toContain(`error: ${message}`);
});

it.each([[[]], [['--help']], [['start', '-h']], [['advance', '--help']]])(
  '%j: help on stderr, exit 0',
  async (argv: string[]) => {
    const { code, stdout, stderr } = await runCommand(two, argv);
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' });
    expect(stderr).toContain('two 1.2.0');
  },
);

const noArgument = (command: string): string => `${command} takes no argument "bogus". --help lists its flags.`;
const fileFlag = (flag: string, session: string): string =>
  `${flag} applies to a session in a file, and there is no --session. Add --session ${session}, or leave out ${flag}.`;
const durableFlag = (flag: string): string =>
  `${flag} does not apply to a durable session, and --durable is given. Leave out ${flag}, or --durable.`;

it.each([
  [['bogus'], '"bogus" is not a command. There are: start, advance, cleanup, mcp.'],
  [['start', 'bogus'], noArgument('start')],
  [['--params', '{"who":"x"}', 'bogus'], noArgument('start')],
  [['start', '--params', '{"who":"x"}', '--verbose', 'yes', 'bogus'], noArgument('start')],
  [['advance', 'bogus', '--step', 'a', '--output', '{}'], noArgument('advance')],
  [['cleanup', '--session', 'x', 'bogus'], noArgument('cleanup')],
  [['start', '--params', '{"who":"x"}', '--session-dir', '/d'], fileFlag('--session-dir', 'new')],
  [['advance', '--session-dir', '/d', '--step', 'a', '--output', '{}'], fileFlag('--session-dir', '<id>')],
  [['advance', '--output-mode', 'flag', '--step', 'a', '--output', '{}'], fileFlag('--output-mode', '<id>')],
  [['start', '--durable', '--session', 'mine', '--session-dir', '/d'], durableFlag('--session-dir')],
  [['start', '--durable', '--output-mode', 'flag'], durableFlag('--output-mode')],
  [['advance', '--durable', '--session', 'mine', '--history', '[]'], durableFlag('--history')],
  [
    ['advance', '--session', 'my-own', '--session-dir', '/d'],
    '--session-dir does not apply to a durable session, and "my-own" has a dash, as ids of durable sessions have. Leave out --session-dir, or give the id of a session in a file.',
  ],
  [
    ['advance', '--session', '0123', '--history-file', 'h'],
    '--history-file and --session cannot be combined: the session file has the history. Remove one of them.',
  ],
])('%j: wrong usage, exit 2, before anything runs', async (argv, message) => {
  expect(await runCommand(two, argv)).toEqual({ code: 2, stdout: '', stderr: `error: ${message}\n` });
});

it('the word behind an unknown flag is ignored with it', async () => {
  const { code, stderr } = await runCommand(two, ['start', '--verbose', 'yes', '--params', '{"who":"x"}']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: 'warning: ignoring the unknown flag --verbose\n' });
});

it('a value is taken literally, and stderr names arguments without a meaning', async () => {
  const { code, stderr, stdout } = await runCommand(two, ['start', '--params', '{"who":"--x"}', '--verbose', '--host']);
  expect(code).toBe(0);
  expect(stdout).toContain('Hello --x');
  expect(stderr).toBe('warning: ignoring --host, which has no value\nwarning: ignoring the unknown flag --verbose\n');
  const verbatim = await runCommand(two, ['advance', '--params', '{"who":"x"}', '--step', '--step', '--output', '{}']);
  expect(JSON.parse(verbatim.stdout)).toMatchObject({ step: '--step', message: 'Unknown step "--step"', retry: false });
});

const asking = skill({ name: 'asking', entry: 'a' })
  .step('a', { prompt: ({ host }) => [act.confirm({ message: JSON.stringify(host) })], next: terminal })
  .build();

it('defect: --subagent counts without a session too', async () => {
  const { prompt } = await json(asking, ['start', '--subagent', '--host', 'codex', '--tools', 'a,b']);
  expect(prompt).toContain('{"host":"codex","toolsAvailable":["a","b"],"isSubagent":true}');
});

const gated = skill({ name: 'gated', entry: 'gate0', stores: { count: z.object({ gate0: z.number() }) } })
  .step('gate0', { save: () => ({ count: { gate0: 1 } }), next: 'a' })
  .step('a', { prompt: 'A', response: z.object({ v: z.number() }), next: 'gate1' })
  .step('gate1', { save: ({ store }) => ({ step: `gate ${store.steps.a.v}` }), next: 'gate2' })
  .step('gate2', { next: 'b' })
  .step('b', { prompt: ({ store }) => store.steps.history.map(({ step }) => step).join(' '), next: terminal })
  .build();

it("defect: the submitted step's own record is in the reply, beside those of steps without a prompt", async () => {
  const started = await json(gated, ['start']);
  expect(Object.keys(started).slice(-1)).toEqual(['autoAdvanced']);
  const history = [...(started.autoAdvanced ?? [])];
  const next = await json(gated, [
    'advance',
    '--step',
    'a',
    '--output',
    '{"v":1}',
    '--history',
    JSON.stringify(history),
  ]);
  expect(next.completed).toEqual({ step: 'a', response: { v: 1 }, result: { v: 1 } });
  expect(next.autoAdvanced?.map(({ step, result }) => [step, result])).toEqual([
    ['gate1', 'gate 1'],
    ['gate2', {}],
  ]);
  expect(next.prompt).toContain('gate0 a gate1 gate2');
  history.push(next.completed!, ...next.autoAdvanced!);
  expect(
    await json(gated, ['advance', '--step', 'b', '--output', '{}', '--history', JSON.stringify(history)]),
  ).toMatchObject({ kind: 'done' });
});

const grower = skill({ name: 'grower', entry: 'a' })
  .step('a', {
    prompt: ({ attempts }) => `been here ${attempts}`,
    response: z.object({ note: z.string() }),
    maxVisits: 1e6,
    next: 'self',
  })
  .build();

it('defect: a history that is longer than an argument may be comes by file or standard input', async () => {
  using folder = new TemporaryFolder();
  const entries = Array.from({ length: 2_000 }, () => ({ step: 'a', response: { note: 'x'.repeat(100) } }));
  const answer = ['advance', '--step', 'a', '--output', '{"note":"y"}'];
  writeFileSync(folder.file('h.json'), JSON.stringify(entries));
  writeFileSync(folder.file('h.jsonl'), entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
  const expected = '<prompt>\nbeen here 2001\n</prompt>';
  expect((await json(grower, [...answer, '--history-file', folder.file('h.json')])).prompt).toBe(expected);
  expect((await json(grower, [...answer, '--history-file', folder.file('h.jsonl')])).prompt).toBe(expected);
  expect((await json(grower, [...answer, '--history', '-'], { stdin: JSON.stringify(entries) })).prompt).toBe(expected);
  expect((await json(grower, [...answer, '--history-file', '-'], { stdin: JSON.stringify(entries) })).prompt).toBe(
    expected,
  );
});

it('an output comes by file or standard input; two things on standard input are a wrong command line', async () => {
  using folder = new TemporaryFolder();
  writeFileSync(folder.file('o.json'), '{"note":"from a file"}');
  const answer = ['advance', '--step', 'a'];
  expect((await json(grower, [...answer, '--output-file', folder.file('o.json')])).completed?.response).toEqual({
    note: 'from a file',
  });
  expect((await json(grower, [...answer, '--output', '-'], { stdin: '{"note":"piped"}' })).completed?.response).toEqual(
    { note: 'piped' },
  );
  for (const argv of [
    [...answer, '--output', '-', '--history', '-'],
    [...answer, '--output', '{}', '--output-file', 'x'],
  ]) {
    const { code, stdout, stderr } = await runCommand(grower, argv, { stdin: '{"note":"x"}' });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^error: --.* Pass (?:only )?one of them/);
  }
  const missing = await runCommand(grower, [...answer, '--output-file', folder.file('none')]);
  expect(missing).toMatchObject({ code: 1, stderr: expect.stringContaining('cannot be read') });
});

it('malformed history is skipped with a warning', async () => {
  const { code, stderr, stdout } = await runCommand(grower, [
    'advance',
    '--step',
    'a',
    '--output',
    '{"note":"y"}',
    '--history',
    '[{"step":"a","output":{}}]',
  ]);
  expect(code).toBe(0);
  expect(stderr).toBe('[skill-kit] skipping malformed history entry: {"step":"a","output":{}}\n');
  expect(stdout).toContain('been here 1');
});

it('what an action throws is on stderr, exit 1', async () => {
  const failing = skill({ name: 'failing', entry: 'a' })
    .step('a', { prompt: 'A', action: async () => Promise.reject(new Error('boom')), next: terminal })
    .build();
  const { code, stdout, stderr } = await runCommand(failing, ['advance', '--step', 'a', '--output', '{}']);
  expect({ code, stdout, stderr }).toEqual({
    code: 1,
    stdout: '',
    stderr: 'error: The action of step "a" failed: boom\n',
  });
});

const sub = skill({ name: 'sub', entry: 'x', params: z.object({ topic: z.string() }) })
  .step('x', { prompt: ({ params }) => `About ${params.topic}`, next: 'y' })
  .step('y', { prompt: ({ params }) => `Still about ${params.topic}`, next: terminal })
  .build();
const composite = skill({ name: 'composite', entry: 'pick', params: z.object({ lang: z.string() }) })
  .step('pick', {
    prompt: ({ params }) => `Pick in ${params.lang}`,
    response: z.object({ to: z.string() }),
    next: ({ response }) => (response.to === 'faq' ? 'topic:faq' : 'subskill:sub'),
  })
  .subskill('sub', sub, { params: (response) => ({ topic: (response as { to: string }).to }) })
  .topic('faq', { label: 'Questions', content: ({ refs }) => refs.load('faq.md') })
  .build();

it('defect: a sub-skill keeps the params that its dispatcher gave it, on every advance', async () => {
  const params = ['--params', '{"lang":"en"}'];
  const picked = await json(composite, ['advance', ...params, '--step', 'pick', '--output', '{"to":"cats"}']);
  expect(picked).toMatchObject({
    step: 'sub/x',
    prompt: '<prompt>\nAbout cats\n</prompt>',
    completed: { step: 'pick' },
  });
  expect(picked.preamble).toBeTypeOf('string');
  const history = [picked.completed];
  const next = await json(composite, [
    'advance',
    ...params,
    '--step',
    'sub/x',
    '--output',
    '{}',
    '--history',
    JSON.stringify(history),
  ]);
  expect(next).toMatchObject({
    step: 'sub/y',
    prompt: '<prompt>\nStill about cats\n</prompt>',
    completed: { step: 'sub/x' },
  });
});

it.each([
  ['its name', ['sub', 'start'], ['sub', 'advance']],
  ['its name and flags', ['sub'], ['sub', 'advance']],
  ['--subskill', ['start', '--subskill', 'sub'], ['advance', '--subskill', 'sub']],
  ['its name, then its prefix', ['sub', 'start'], ['advance']],
])('a sub-skill runs on its own: by %s', async (_name, start, advance) => {
  const params = ['--params', '{"topic":"dogs"}'];
  expect(await json(composite, [...start, ...params])).toMatchObject({
    step: 'sub/x',
    prompt: '<prompt>\nAbout dogs\n</prompt>',
  });
  const next = await json(composite, [...advance, ...params, '--step', 'sub/x', '--output', '{}']);
  expect(next).toMatchObject({ step: 'sub/y', prompt: '<prompt>\nStill about dogs\n</prompt>' });
});

it('defect: references are loaded, from beside the script, above it, or where they are said to be', async () => {
  using folder = new TemporaryFolder();
  mkdirSync(folder.file('references'));
  writeFileSync(folder.file('references/faq.md'), 'Ask away');
  const argv = ['advance', '--params', '{"lang":"en"}', '--step', 'pick', '--output', '{"to":"faq"}'];
  for (const around of [
    { refsBase: folder.path },
    { script: folder.file('skill.mjs') },
    { script: folder.file('bin/skill.mjs') },
  ]) {
    expect((await json(composite, argv, around)).finalOutput).toEqual({ topic: 'faq', content: 'Ask away' });
    expect(await runCommand(composite, ['topic', 'faq'], around)).toEqual({
      code: 0,
      stdout: 'Ask away\n',
      stderr: '',
    });
  }
  const none = await runCommand(composite, argv, { script: '/nowhere/skill.mjs' });
  expect(none).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('The reference "faq.md" cannot be read'),
  });
});

it('defect: topics are listed, shown and led to, of a skill without sub-skills too', async () => {
  const told = skill({ name: 'told', entry: 'a' })
    .step('a', { prompt: 'A', next: 'topic:how' })
    .topic('how', { label: 'How it works', content: () => 'Well' })
    .build();
  expect(await runCommand(told, ['topics'])).toEqual({ code: 0, stdout: 'how: How it works\n', stderr: '' });
  expect(await runCommand(told, ['topic', 'how'])).toEqual({ code: 0, stdout: 'Well\n', stderr: '' });
  expect(await runCommand(told, ['topic', 'toString'])).toEqual({
    code: 1,
    stdout: '',
    stderr: 'error: Unknown topic "toString". Topics: how.\n',
  });
  const end = await json(told, ['advance', '--step', 'a', '--output', '{}']);
  expect(end).toMatchObject({ kind: 'done', finalOutput: { topic: 'how', content: 'Well' }, completed: { step: 'a' } });
});

it('defect: a sub-skill that is called like a command is reached by --subskill', async () => {
  const leaf = skill({ name: 'leaf', entry: 'x' }).step('x', { prompt: 'X', next: terminal }).build();
  const odd = skill({ name: 'odd', entry: 'a' })
    .step('a', { prompt: 'A', next: 'subskill:start' })
    .subskill('start', leaf)
    .build();
  expect(await json(odd, ['start'])).toMatchObject({ step: 'a' });
  expect(await json(odd, ['start', '--subskill', 'start'])).toMatchObject({ step: 'start/x' });
  expect(await runCommand(odd, ['start', '--subskill', 'x'])).toMatchObject({ code: 2, stdout: '' });
});

it('a skill without sub-skills and topics gives redirects to its caller', async () => {
  const lone = skill({ name: 'lone', entry: 'a' })
    .step('a', { prompt: 'A', next: () => 'subskill:elsewhere' })
    .build();
  expect(await json(lone, ['advance', '--step', 'a', '--output', '{}'])).toMatchObject({
    kind: 'redirect',
    redirect: 'subskill:elsewhere',
    completed: { step: 'a' },
  });
});

const resting = (durationMs: number): SkillDefinition =>
  skill({ name: 'resting', entry: 'a' })
    .step('a', { prompt: 'A', next: 'rest' })
    .step('rest', { wait: { durationMs }, next: 'b' })
    .step('b', { prompt: ({ store }) => store.steps.history.map(({ step }) => step).join(' '), next: terminal })
    .build();

it('without a session, short waits are waited for, and long ones need one', async () => {
  const argv = ['advance', '--step', 'a', '--output', '{}'];
  expect(await json(resting(20), argv)).toMatchObject({
    kind: 'prompt',
    prompt: '<prompt>\na rest\n</prompt>',
    completed: { step: 'a' },
    autoAdvanced: [{ step: 'rest' }],
  });
  expect(await runCommand(resting(3_600_000), argv)).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('--session new'),
  });
});

it('without a session, a warning says that no process enforces the deadline', async () => {
  const approval = skill({ name: 'approval', entry: 'ask' })
    .step('ask', { prompt: 'May I?', human: { deadlineMs: 1_000, onExpiry: 'late' }, next: 'end' })
    .step('late', { prompt: 'Too late', next: terminal })
    .step('end', { prompt: 'Fine', human: {}, next: terminal })
    .build();
  const start = await runCommand(approval, ['start']);
  expect(JSON.parse(start.stdout)).toMatchObject({
    kind: 'prompt',
    step: 'ask',
    human: { dueMs: expect.any(Number) as number },
  });
  expect(start).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/^warning: nothing measures the deadline of step "ask" \(\d{4}-.*--session new/),
  });
  // A person's step without a deadline causes no warning.
  expect(await runCommand(approval, ['advance', '--step', 'ask', '--output', '{}'])).toMatchObject({
    code: 0,
    stderr: '',
  });
});

it('a branch that is answered without the history of its split is warned about, and what a callback throws names its step', async () => {
  const split = skill({ name: 'split', entry: 'both' })
    .step('both', { parallel: { branches: ['left', 'right'], join: 'sum' } })
    .step('left', { prompt: 'L', response: z.object({ n: z.number() }), next: 'sum' })
    .step('right', { prompt: 'R', response: z.object({ n: z.number() }), next: 'sum' })
    .step('sum', { save: ({ store }) => ({ step: { sum: store.steps.left.n + store.steps.right.n } }), next: terminal })
    .build();
  const { autoAdvanced = [] } = await json(split, ['start']);
  const left = ['advance', '--step', 'left', '--output', '{"n":1}'];
  const { completed } = await json(split, [...left, '--history', JSON.stringify(autoAdvanced)]);
  const right = ['advance', '--step', 'right', '--output', '{"n":2}'];
  const whole = await runCommand(split, [...right, '--history', JSON.stringify([...autoAdvanced, completed])]);
  expect(whole.stderr).toBe('');
  expect(JSON.parse(whole.stdout)).toMatchObject({ kind: 'done', finalOutput: { sum: 3 } });
  const { code, stderr } = await runCommand(split, right);
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /^\[skill-kit\] step "right" is answered on its own, .* parallel step "both"\..* autoAdvanced .*\nerror: step "sum": Cannot read .*\n$/,
  );
});
