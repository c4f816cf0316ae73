/** Tests of runs that a program starts and awaits, through the embedded stack, as an author writes it. */
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import * as z from 'zod';
import type { RunEvent } from './index.ts';
import { approval, box, items, Pipeline, RunError, type RunResult, uses } from './index.ts';

const BIN = fileURLToPath(new URL('../bin/voidbox.js', import.meta.url));
const ROOT = fileURLToPath(new URL('..', import.meta.url));
const UNSET = ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'npm_command'];
const sandbox = { mode: 'mock', isolation: 'none' } as const;

let dir: string;
const before: Record<string, string | undefined> = {};
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-sdk-run-'));
  // The command line that `run` starts gets the environment of this program.
  for (const name of [...UNSET, 'VOIDBOX_STATE_DIR']) before[name] = process.env[name];
  for (const name of UNSET) delete process.env[name];
  process.env['VOIDBOX_STATE_DIR'] = join(dir, 'state');
});
afterAll(async () => {
  await promisify(execFile)(process.execPath, [BIN, 'down'], { timeout: 110_000 });
  for (const [name, value] of Object.entries(before))
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  rmSync(dir, { recursive: true, force: true });
});

const failed = async (run: Promise<unknown>): Promise<RunError> => {
  const error: unknown = await run.then(
    () => new Error('it succeeded'),
    (reason: unknown) => reason,
  );
  if (!(error instanceof RunError)) throw error;
  return error;
};

test('results have their declared types', { timeout: 240_000 }, async () => {
  const told: string[] = [];
  const events: RunEvent[] = [];
  const text = Pipeline.named('text', { sandbox, params: { who: { type: 'choice', choices: ['ada', 'bob'] } } }).pipe(
    box('say', ['cat', '/workspace/input.json']),
  );
  const done: RunResult<string> = await text.run({
    params: { who: 'ada' },
    input: { n: 1 },
    runId: 'text',
    mockAgents: true,
    timeoutMs: 600_000,
    deadlineMs: 900_000,
    onProgress: (line) => told.push(line),
    onEvent: (event) => events.push(event),
  });
  expect(done).toMatchObject({ runId: 'text', output: '{"n":1}', ref: { sizeBytes: 7 }, tolerated: [] });
  expect(told.join('\n')).toContain('run text');
  expect(told.join('\n')).toContain('notice: --mock-agents has no effect');
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  expect(events.map(({ body }) => body.type)).toEqual(
    expect.arrayContaining(['run-admitted', 'stage-started', 'stage-finished']),
  );
  const last = events.at(-1)!.body;
  expect(last.type === 'run-finished' && last.outcome.state).toBe('succeeded');

  const report = box('report', ['printf', '%s', '{"ok": true}'], { outputSchema: z.object({ ok: z.boolean() }) });
  const { output } = await Pipeline.named('object', { sandbox }).pipe(report).run();
  expect(output?.ok).toBe(true);

  const list = box('list', ['printf', '%s', '["a", "b"]']);
  const each = await Pipeline.named('list', { sandbox })
    .pipe(list)
    .forEach(items(list), box('echo', ['printf', 'done']))
    .run();
  expect(each.output?.map(({ item, output: of }) => [item, of])).toEqual([
    ['a', 'done'],
    ['b', 'done'],
  ]);

  const count = box('count', ['printf', '%s', '{"id": 18446744073709551615}'], {
    outputSchema: z.object({ id: z.number() }),
  });
  const inexact = await failed(Pipeline.named('count', { sandbox }).pipe(count).run({ runId: 'count' }));
  expect(inexact).toMatchObject({
    code: 'cli/inexact-number',
    runId: 'count',
    state: 'succeeded',
    stage: 'count',
    remedy: 'print it as a string, or read the text: voidbox result count',
  });
  expect(inexact.message).toContain('the number 18446744073709551615');

  const merged = await Pipeline.named('merge', { sandbox })
    .fanOut([box('x', ['printf', '1']), box('y', ['printf', '2'])])
    .run();
  expect(merged.output?.map(({ name }) => name)).toEqual(['x', 'y']);
  const whole = await Pipeline.named('whole', { sandbox })
    .pipe(uses('inner', Pipeline.named('inner').pipe(box('say', ['printf', 'from a part']))))
    .run();
  expect(whole.output).toBe('from a part');
  const passed = await Pipeline.named('passed', { sandbox })
    .pipe(box('a', ['printf', 'no JSON']))
    .pipe(box('b', ['true'], { when: 'false', outputSchema: z.object({}) }))
    .run();
  expect(passed.output).toBeNull();
});

test('a failure is an error with its reason', { timeout: 120_000 }, async () => {
  const fails = Pipeline.named('fails', { sandbox }).pipe(box('no', ['false']));
  const error = await failed(fails.run({ runId: 'fails' }));
  expect(error).toMatchObject({
    name: 'RunError',
    code: 'stage/exit-nonzero',
    runId: 'fails',
    state: 'failed',
    stage: 'no',
    remedy: 'see what it did: voidbox status fails',
  });
  expect(error.message).toContain('the run fails failed: ');

  // These runs do not start: a run of that id exists; a folder does not.
  expect(await failed(fails.run({ runId: 'fails' }))).toMatchObject({ code: 'cli/usage', runId: null, state: null });
  const mocked = Pipeline.named('mocked', { sandbox }).pipe(box('no', ['false'], { mock: { output: 'yes' } }));
  expect((await mocked.run({ mock: 'all' })).output).toBe('yes');
  expect(await failed(mocked.run({ mock: ['other'] }))).toMatchObject({ code: 'cli/usage', runId: null });
});

test('mistakes are errors before a run starts', async () => {
  const wrong = Pipeline.named('wrong', { sandbox })
    .pipe(box('a', ['true'], { timeoutMs: 0 }))
    .pipe(box('a', ['true']));
  const error = await failed(wrong.run());
  expect(error).toMatchObject({ code: 'spec/invalid', runId: null, state: null });
  expect(error.message).toMatch(/^the definition "wrong" has mistakes: .*, and \d+ more in `diagnostics`$/s);
  expect(error.diagnostics.length).toBeGreaterThan(1);

  const quick = Pipeline.named('quick', { sandbox }).pipe(box('a', ['true']));
  await expect(quick.run({ timeoutMs: 1 })).rejects.toThrow(
    new RangeError('`timeoutMs` is 1: it must be a whole number of milliseconds from 1000 to 34560000000'),
  );
  await expect(quick.run({ deadlineMs: Number.NaN })).rejects.toThrow(/^`deadlineMs` is NaN: /);

  const big = Pipeline.named('big', { sandbox, params: { p: 'x' } }).pipe(box('a', ['true']));
  await expect(big.run({ params: { p: 'x'.repeat(100_001) } })).rejects.toThrow(
    new RangeError(
      'the parameter `p` has 100001 bytes; a run takes 100000: hand it over as `input`, or in a mounted file',
    ),
  );
});

test('a signal cancels the run', { timeout: 120_000 }, async () => {
  const asks = Pipeline.named('asks', { sandbox }).pipe(approval('go', { message: 'Go?' }));
  expect(await failed(asks.run({ runId: 'asks', signal: AbortSignal.timeout(5_000) }))).toMatchObject({
    code: 'stage/cancelled',
    runId: 'asks',
    state: 'cancelled',
  });
  await expect(asks.run({ signal: AbortSignal.abort(new Error('too late')) })).rejects.toThrow('too late');
});

test('a definition that is being loaded starts no run', { timeout: 120_000 }, async () => {
  const file = join(dir, 'starts.mjs');
  writeFileSync(
    file,
    `import { box, Pipeline } from 'voidbox';\nconst p = Pipeline.named('starts').pipe(box('a', ['true']));\nawait p.run();\nexport default p;\n`,
  );
  const child = spawn(process.execPath, [BIN, 'validate', file], { stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += String(chunk)));
  const code = await new Promise((resolve) => child.once('close', resolve));
  expect(code).toBe(2);
  expect(text).toContain('must not start a run: export it, and call `run` in a separate program');
});

test('the program of docs/reference/typescript.md has the results of the page', { timeout: 120_000 }, async () => {
  const page = readFileSync(join(ROOT, 'docs/reference/typescript.md'), 'utf8');
  const [, program] = /```ts\n(import \{[^`]*?Pipeline[^]*?)```/.exec(page) ?? [];
  expect(program).toContain('.run(');
  const folder = mkdtempSync(join(ROOT, 'dist/.docs-'));
  try {
    // The page uses VMs; here its commands are simulated.
    const simulated = program!.replace(
      "named('greetings', {",
      "named('greetings', {\n  sandbox: { mode: 'mock', isolation: 'none' },",
    );
    expect(simulated).not.toBe(program);
    // The code contains no type, so it is JavaScript as well.
    writeFileSync(join(folder, 'greetings.mjs'), simulated);
    const { stdout } = await promisify(execFile)(process.execPath, [join(folder, 'greetings.mjs')], {
      timeout: 110_000,
    });
    expect(stdout).toBe('2 greetings\n');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
