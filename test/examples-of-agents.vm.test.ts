/** The examples of agents, questions, programs and conditions, tested like the examples of `examples.vm.test.ts`. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Rig, until } from './e2e/rig.ts';
import { Calculator } from './rig/git/calculator.ts';
import { EXAMPLES, endRig, observations, runExample, type RunJson } from './rig/runs/examples.ts';

let rig: Rig;
beforeAll(() => {
  rig = new Rig();
});
afterAll(() => endRig(rig));

const waiting = async (): Promise<readonly unknown[]> =>
  (JSON.parse((await rig.cli('runs', '--waiting', '--json')).stdout) as { readonly runs: readonly unknown[] }).runs;

/** Approves the question once the run asks it. */
async function approve(runId: string): Promise<void> {
  await rig.eventOf(runId, 'stage-asking', 180_000);
  expect(await waiting()).toHaveLength(1);
  expect((await rig.cli('approve', runId)).code).toBe(0);
  expect((await rig.cli('logs', '-f', runId)).code).toBe(0);
}

test('agents.yaml', async () => {
  const started = await rig.cli('run', join(EXAMPLES, 'agents.yaml'), '--mock-agents', '--detach', '--json');
  expect(started.code, started.stderr).toBe(0);
  const { runId } = JSON.parse(started.stdout) as { readonly runId: string };
  await approve(runId);
  const result = await rig.cli('result', runId);
  expect(JSON.parse(result.stdout)).toEqual({ verdict: 'ship it' });
  const status = await rig.cli('status', runId);
  expect(status.stdout).toContain('played by the mock agent: review.check, report');
});

const IN_APP = ['--param', 'repository=./my-app'] as const;

/** An example with a repository beside it. */
function besideCalculator(example: string): { readonly spec: string; readonly app: Calculator } {
  const app = new Calculator(rig.specDir);
  return { spec: rig.spec(example, readFileSync(join(EXAMPLES, example), 'utf8')), app };
}

test('review-skill.yaml', async () => {
  const run = await runExample(rig, 'review-skill.yaml', '--mock-agents');
  expect(run.outputText).toMatch(/^approved: true\n\| by \| approved \| remarks \|\n/);
  for (const by of ['correctness', 'security', 'clarity']) expect(run.outputText).toContain(`| ${by}`);
});

test('fix-a-test.yaml', { timeout: 180_000 }, async () => {
  const { spec, app } = besideCalculator('fix-a-test.yaml');
  const run = await rig.cli('run', spec, ...IN_APP, '--mock-agents', '--run-id', 'fix-a-test');
  expect(run.code, run.stderr).toBe(0);
  expect(run.stdout).toBe('2 + 3 is 5\n');
  expect((await rig.cli('apply', 'fix-a-test', '--branch')).code).toBe(0);
  expect(app.git('log', '--format=%s', 'voidbox/fix-a-test/test')).toBe('fix the test\na calculator\n');
  expect((await rig.cli('apply', 'fix-a-test')).code).toBe(0);
  expect(app.test()).toBe('2 + 3 is 5\n');
});

test('review-a-patch.yaml', async () => {
  const { spec } = besideCalculator('review-a-patch.yaml');
  const run = await rig.cli('run', spec, ...IN_APP, '--mock-agents', '--run-id', 'review-a-patch', '--json');
  expect(run.code, run.stderr).toBe(0);
  const { outputText } = JSON.parse(run.stdout) as RunJson;
  expect(JSON.parse(outputText ?? '')).toEqual({ verdict: 'change', changes: ['Add a test.'] });
  const raw = async (stage: string): Promise<string> =>
    (await rig.cli('logs', 'review-a-patch', '--stage', stage, '--raw')).stdout;
  expect(await raw('mistakes'), 'it reads the commit').toContain('+echo $(($1 - $2))');
  const merge = (await raw('merge')).replaceAll('\\', '');
  for (const [name, output] of [
    ['mistakes', 'The mock agent finds no mistake.'],
    ['tests', 'A test may be missing.'],
    ['style', 'Nothing is hard to read.'],
  ])
    expect(merge, 'it reads the reviews').toContain(JSON.stringify({ name, output }));
});

test('research.yaml', async () => {
  const example = join(EXAMPLES, 'research.yaml');
  const run = await rig.cli('run', example, '--mock-agents', '--run-id', 'research', '--json');
  expect(run.code, run.stderr).toBe(0);
  expect(JSON.parse((JSON.parse(run.stdout) as RunJson).outputText ?? '')).toMatchObject({ answer: 'DNS over TLS' });
  const network = await rig.cli('logs', 'research', '--network');
  expect(network.stdout).toMatch(/vm research: www\.example\.com:80 refused: /);
});

test('release-notes.yaml', async () => {
  const { spec, app } = besideCalculator('release-notes.yaml');
  app.commit('README.md', 'a calculator\n', 'README.md: what this is');
  const started = await rig.cli('run', spec, ...IN_APP, '--mock-agents', '--run-id', 'notes', '--detach');
  expect(started.code, started.stderr).toBe(0);
  await approve('notes');
  expect((await rig.cli('result', 'notes')).stdout).toBe('- A change.\n- A change.\n');
  const raw = await rig.cli('logs', 'notes', '--stage', 'note[1].line', '--raw');
  expect(raw.stdout, 'it reads its commit').toContain('a calculator');
  expect((await rig.cli('apply', 'notes', '--branch')).code).toBe(0);
  expect(app.git('show', 'voidbox/notes/changelog:CHANGELOG.md')).toBe('- A change.\n- A change.\n');
});

test('egress.yaml', async () => {
  const asked: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    asked.push(request.headers.host);
    response.end('one\ntwo\n');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const port = String((server.address() as AddressInfo).port);
  try {
    // Any program of this machine may have the port of the example.
    const text = readFileSync(join(EXAMPLES, 'egress.yaml'), 'utf8').replaceAll('8000', port);
    const result = await rig.cli('run', rig.spec('egress.yaml', text), '--json');
    expect(result.code, result.stderr).toBe(0);
    const run = JSON.parse(result.stdout) as RunJson & { readonly tolerated: readonly string[] };
    expect(run).toMatchObject({ state: 'succeeded', outputText: '2\n', tolerated: ['wander', 'beyond'] });
    expect(asked).toEqual([`web:${port}`]);
  } finally {
    server.close();
  }
});

test('approval.yaml', async () => {
  const started = await rig.cli('run', join(EXAMPLES, 'approval.yaml'), '--param', 'version=1.3', '--detach', '--json');
  expect(started.code, started.stderr).toBe(0);
  const { runId } = JSON.parse(started.stdout) as { readonly runId: string };
  await rig.eventOf(runId, 'stage-asking');
  expect(await waiting()).toHaveLength(1);
  const refused = await rig.cli('approve', runId, '--field', 'window=never');
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('must be one of: tonight, tomorrow') });
  const approved = await rig.cli('approve', runId, '--field', 'window=tonight', '--by', 'ada');
  expect(approved).toMatchObject({ code: 0, stdout: `release of ${runId} approved by ada\n` });
  expect((await rig.cli('logs', '-f', runId)).code).toBe(0);
  const result = await rig.cli('result', runId);
  expect(result.stdout.split('\n')[0]).toBe('release 1.3');
  expect(JSON.parse(result.stdout.split('\n')[1]!)).toMatchObject({ by: 'ada', fields: { window: 'tonight' } });
  expect(await waiting()).toEqual([]);
});

test('approve-each.yaml', async () => {
  const started = await rig.cli('run', join(EXAMPLES, 'approve-each.yaml'), '--detach', '--json');
  expect(started.code, started.stderr).toBe(0);
  const { runId } = JSON.parse(started.stdout) as { readonly runId: string };
  const asked = async (): Promise<number> =>
    (await rig.events(runId)).filter(({ body }) => body.type === 'stage-asking').length;
  await until('both questions', 120_000, async () => (await asked()) === 2);
  const status = (await rig.cli('status', runId)).stdout;
  expect(status).toContain(`voidbox approve ${runId} 'regions[1].ok'`);
  expect(status).toContain('regions[0].ok: Deploy there? (item "eu"; until');
  expect(await rig.cli('approve', runId)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('2 stages of run'),
  });
  const approved = await rig.cli('approve', runId, 'regions[0].ok', '--by', 'ada');
  expect(approved).toMatchObject({ code: 0, stdout: `regions[0].ok of ${runId} approved by ada\n` });
  const waiting = async (): Promise<string> => (await rig.cli('runs', '--waiting')).stdout;
  expect(await waiting()).toContain('regions[1].ok asks: Deploy there?');
  expect((await rig.cli('reject', runId, '--by', 'ada', '--comment', 'no')).code).toBe(0);
  expect((await rig.cli('logs', '-f', runId)).code).toBe(0);
  expect(JSON.parse((await rig.cli('result', runId)).stdout)).toMatchObject([
    { item: 'eu', output: 'deployed to "eu"\n' },
    { item: 'us', failure: { code: 'stage/rejected' } },
  ]);
  // After the end of the run, only the recorded answer is accepted again.
  expect((await rig.cli('approve', runId, 'regions[0].ok', '--by', 'ada')).code).toBe(0);
  expect((await rig.cli('approve', runId, 'regions[0].ok', '--by', 'eve')).code).toBe(1);
});

test('sandbox.ts', async () => {
  const wet = observations().filter((day) => day.rainMm >= 10);
  const count = (city: string): number => wet.filter((day) => day.city === city).length;
  // The compiled file, because earlier versions of Node do not read TypeScript.
  const program = join(EXAMPLES, '../dist/examples/definitions/sandbox.js');
  const data = join(EXAMPLES, 'data/weather.csv');
  const { stdout } = await promisify(execFile)(process.execPath, [program, data], { env: rig.env, timeout: 120_000 });
  expect(stdout.trimEnd().split('\n')).toEqual([
    `days with 10 mm and more in New York: ${count('New York')}`,
    `days with 10 mm and more in Seattle: ${count('Seattle')}`,
    'letters so far: 5',
    'letters so far: 7',
    'the host counted its CPU time',
  ]);
});

test('checkpoint.ts', async () => {
  const program = join(EXAMPLES, '../dist/examples/definitions/checkpoint.js');
  const { stdout } = await promisify(execFile)(process.execPath, [program], { env: rig.env, timeout: 120_000 });
  const sum = (1000 * 1001) / 2;
  expect(stdout.trimEnd().split('\n')).toEqual([
    'the checkpoint is small',
    `VM 1 sees ${sum}`,
    `VM 2 sees ${sum + 1}`,
    'deleted',
  ]);
});

test('wet-days.ts', async () => {
  const wet = observations().filter((day) => day.rainMm >= 25);
  // The compiled file, in another folder than the one where its mounts start.
  const program = join(EXAMPLES, '../dist/examples/definitions/wet-days.js');
  const { stdout } = await promisify(execFile)(process.execPath, [program, '25', EXAMPLES], {
    env: rig.env,
    timeout: 240_000,
  });
  const lines = stdout.trimEnd().split('\n');
  expect(lines.slice(0, -1)).toEqual(
    ['Seattle', 'New York'].map((city) => `${city}: ${wet.filter((day) => day.city === city).length} wet days`),
  );
  expect(lines.at(-1)).toMatch(/^see what it did: voidbox status wet-days-/);
});

test.each([
  ['staging', 'report: 3 rows, not published\n', { clean: 'succeeded', publish: 'passed' }],
  ['prod', 'report: 3 rows, published to prod\n', { clean: 'succeeded', publish: 'succeeded' }],
])('conditions.yaml for %s', async (env, text, states) => {
  const run = await runExample(rig, 'conditions.yaml', '--param', `env=${env}`);
  expect(run.outputText).toBe(text);
  expect(Object.fromEntries(run.stages.map(({ id, state }) => [id, state]))).toMatchObject(states);
});

test('outputs-in-arguments.yaml', async () => {
  const run = await runExample(rig, 'outputs-in-arguments.yaml');
  expect(run.outputText).toMatch(/^v2\.7\|it's \S*\nline 2$/);
});

test('mocks.yaml', async () => {
  const run = await runExample(rig, 'mocks.yaml', '--mock');
  expect(run.mocked).toEqual(['review', 'tests']);
  expect(run.stages.map(({ id }) => id)).toEqual(['review', 'tests', 'report']);
  expect(run.outputText).toBe('40 tests passed. The review says: {"ok":false,"why":"no tests"}\n');

  const result = await rig.cli('run', join(EXAMPLES, 'mocks.yaml'), '--json', '--mock=review');
  expect(result.code, result.stderr).toBe(0);
  const tested = JSON.parse(result.stdout) as RunJson;
  expect(tested.mocked).toEqual(['review']);
  expect(tested.stages.map(({ id, state }) => `${id} ${state}`)).toEqual([
    'review succeeded',
    'tests.suite succeeded',
    'tests.count succeeded',
    'tests succeeded',
    'report succeeded',
  ]);
  expect(tested.outputText).toMatch(/^2 tests passed\. /);
});
