/** Each example, run by the real command line in real VMs; results are compared with values computed here from the data. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Rig, until } from './e2e/rig.ts';
import { Calculator } from './rig/calculator.ts';

const EXAMPLES = join(dirname(fileURLToPath(import.meta.url)), '..', 'examples');

interface RunJson {
  readonly state: string;
  readonly outputText: string | null;
  readonly mocked: readonly string[];
  readonly stages: readonly {
    readonly id: string;
    readonly state: string;
    readonly isolation: string | null;
    readonly accelerator: string | null;
  }[];
}

interface Observation {
  readonly city: string;
  readonly date: string;
  readonly rainMm: number;
  readonly highC: string;
  readonly lowC: string;
}

let rig: Rig;
beforeAll(() => {
  rig = new Rig();
});
afterAll(async () => {
  try {
    await rig.assertNothingLeft();
  } finally {
    await rig[Symbol.asyncDispose]();
  }
});

async function runExample(file: string, ...args: readonly string[]): Promise<RunJson> {
  const result = await rig.cli('run', join(EXAMPLES, file), '--json', ...args);
  expect(result.code, `${result.stdout}\n${result.stderr}`).toBe(0);
  const run = JSON.parse(result.stdout) as RunJson;
  expect(run.state).toBe('succeeded');
  for (const stage of run.stages) {
    // What was passed has no VM; its example's own test says which stages those are.
    if (stage.state === 'passed') continue;
    // So does what was mocked.
    if (run.mocked.includes(stage.id)) continue;
    // KVM where the machine has it in hardware, emulation elsewhere, and never anything that is no VM.
    expect(stage).toMatchObject({
      state: 'succeeded',
      isolation: 'microvm',
      accelerator: expect.stringMatching(/^(kvm|tcg)$/),
    });
  }
  return run;
}

function observations(): Observation[] {
  const [header, ...rows] = readFileSync(join(EXAMPLES, 'data/weather.csv'), 'utf8').trimEnd().split('\n');
  expect(header).toBe('location,date,precipitation,temp_max,temp_min,wind,weather');
  return rows.map((row) => {
    const [city = '', date = '', rain = '', highC = '', lowC = ''] = row.split(',');
    return { city, date, rainMm: Number(rain), highC, lowC };
  });
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function first<T>(values: readonly T[], order: (a: T, b: T) => number): T {
  const [best] = values.toSorted(order);
  if (best === undefined) throw new Error('there is no data');
  return best;
}

test('every example has its test', () => {
  expect(
    readdirSync(EXAMPLES)
      .filter((name) => /\.(yaml|ts)$/.test(name))
      .toSorted(),
  ).toEqual([
    'agents.yaml',
    'approval.yaml',
    'approve-each.yaml',
    'conditions.yaml',
    'continue-on-error.yaml',
    'dev-image.yaml',
    'egress.yaml',
    'files-pipeline.yaml',
    'files.yaml',
    'finally.yaml',
    'fix-a-test.yaml',
    'for-each-loop.yaml',
    'for-each-nested.yaml',
    'for-each-part.yaml',
    'for-each.yaml',
    'hello.yaml',
    'loop.yaml',
    'mocks.yaml',
    'on-failure.yaml',
    'outputs-in-arguments.yaml',
    'parts.yaml',
    'release-notes.yaml',
    'research.yaml',
    'retry.yaml',
    'review-a-patch.yaml',
    'review-skill.yaml',
    'sandbox.ts',
    'secrets.yaml',
    'service.yaml',
    'uses.yaml',
    'wait.yaml',
    'weather-cities.ts',
    'weather-dag.yaml',
    'wet-days.ts',
  ]);
});

test('hello.yaml', async () => {
  const run = await runExample('hello.yaml', '--param', 'name=Ada "L" $HOME');
  const [greeting, machine, total] = (run.outputText ?? '').split('\n');
  expect(greeting).toBe('Hello, Ada "L" $HOME!');
  expect(machine).toMatch(/^This VM runs Linux \d+\.\d+\S* as user sandbox\.$/);
  expect(total).toBe('1 + 2 + ... + 100 = 5050');
});

test('service.yaml: its output is read while it serves, and the last one is the result of the cancelled run', async () => {
  await rig.launch(join(EXAMPLES, 'service.yaml'), 'service');
  await rig.eventOf('service', 'stage-published');
  const looks = async (): Promise<number> => {
    const { stdout, stderr } = await rig.cli('artifacts', 'service', 'get', 'watch', '-o', '-');
    expect(stdout, stderr).toMatch(/^\{"looks": \d+, "load": \d+\.\d+\}\n$/);
    return (JSON.parse(stdout) as { readonly looks: number }).looks;
  };
  const first = await looks();
  await until('a later output', 60_000, async () => (await looks()) > first, 500);
  const status = await rig.cli('status', 'service');
  expect(status.stdout).toMatch(/▶ watch .*running .*published \d+ B at 20/);
  expect(await rig.output('service', 'ask')).toMatch(/"looks"/);
  expect((await rig.cli('cancel', 'service')).stdout).toContain('cancelled');
  const result = await rig.cli('result', 'service', '--json');
  expect(result.code).toBe(1);
  const { state, outputText } = JSON.parse(result.stdout) as RunJson;
  expect(state).toBe('cancelled');
  expect((JSON.parse(outputText!) as { readonly looks: number }).looks).toBeGreaterThan(first);
});

test('dev-image.yaml', { timeout: 1_200_000 }, async () => {
  const { outputText } = await runExample('dev-image.yaml');
  expect(outputText).toBe(`${sum([0, 1, 4, 9, 16])}\n`);
});

test('continue-on-error.yaml', async () => {
  const result = await rig.cli('run', join(EXAMPLES, 'continue-on-error.yaml'), '--json');
  expect(result.code, result.stderr).toBe(0);
  const run = JSON.parse(result.stdout) as RunJson & { readonly tolerated: readonly string[] };
  expect(run).toMatchObject({ state: 'succeeded', tolerated: ['check'], outputText: 'findings: 1\n' });
  expect(run.stages.map(({ id, state }) => `${id} ${state}`)).toEqual([
    'build succeeded',
    'check failed',
    'report succeeded',
  ]);
  expect(result.stderr).toContain('1 failure tolerated: check');
});

test('finally.yaml', async () => {
  const states = async (code: number, ...args: readonly string[]): Promise<readonly string[]> => {
    const result = await rig.cli('run', join(EXAMPLES, 'finally.yaml'), '--json', ...args);
    expect(result.code, result.stderr).toBe(code);
    return (JSON.parse(result.stdout) as RunJson).stages.map(({ id, state }) => `${id} ${state}`);
  };
  expect(await states(0)).toEqual(['make succeeded', 'check succeeded', 'note succeeded', 'alarm passed']);
  expect(await states(1, '--param', 'lines=0')).toEqual([
    'make succeeded',
    'check failed',
    'note succeeded',
    'alarm succeeded',
  ]);
});

test('on-failure.yaml', async () => {
  const states = async (code: number, ...args: readonly string[]): Promise<readonly string[]> => {
    const result = await rig.cli('run', join(EXAMPLES, 'on-failure.yaml'), '--json', ...args);
    expect(result.code, result.stderr).toBe(code);
    return (JSON.parse(result.stdout) as RunJson).stages.map(({ id, state }) => `${id} ${state}`);
  };
  expect(await states(0)).toEqual(['make succeeded', 'check succeeded', 'keep skipped']);
  expect(await states(1, '--param', 'lines=0')).toEqual(['make succeeded', 'check failed', 'keep succeeded']);
});

test('retry.yaml', async () => {
  const run = await runExample('retry.yaml');
  expect(run.outputText).toBe('fetched in attempt 3\n');
});

test('wait.yaml', async () => {
  const result = await rig.cli('run', join(EXAMPLES, 'wait.yaml'), '--json');
  expect(result.code, result.stderr).toBe(0);
  const { outputText, stages } = JSON.parse(result.stdout) as RunJson;
  expect(Number(/^(\d+) seconds later\n$/.exec(outputText ?? '')?.[1])).toBeGreaterThanOrEqual(4);
  for (const wait of ['settle', 'window'])
    expect(stages.find(({ id }) => id === wait)).toMatchObject({ state: 'succeeded', isolation: null });
});

test('weather-dag.yaml', async () => {
  const all = observations();
  expect(all.length).toBe(2_922);
  const summary = (name: string, city: string): string => {
    const days = all.filter((day) => day.city === city);
    const wettest = first(days, (a, b) => b.rainMm - a.rainMm || a.date.localeCompare(b.date));
    const meanHigh = sum(days.map((day) => Number(day.highC))) / days.length;
    return [
      name,
      days.length,
      days.filter((day) => day.rainMm > 0).length,
      sum(days.map((day) => day.rainMm)).toFixed(1),
      meanHigh.toFixed(2),
      wettest.date,
      wettest.rainMm.toFixed(1),
    ].join(',');
  };
  const hottest = first(
    all,
    (a, b) => Number(b.highC) - Number(a.highC) || a.date.localeCompare(b.date) || a.city.localeCompare(b.city),
  );
  const coldest = first(
    all,
    (a, b) => Number(a.lowC) - Number(b.lowC) || a.date.localeCompare(b.date) || a.city.localeCompare(b.city),
  );
  const run = await runExample('weather-dag.yaml');
  expect(run.outputText?.trimEnd().split('\n')).toEqual([
    'city,days,wet_days,rain_mm,mean_high_c,wettest_day,wettest_mm',
    summary('New-York', 'New York'),
    summary('Seattle', 'Seattle'),
    `hottest,${hottest.city},${hottest.date},${hottest.highC}`,
    `coldest,${coldest.city},${coldest.date},${coldest.lowC}`,
  ]);
});

test('weather-cities.ts', async () => {
  const longest = (name: string): string => {
    let [days, most, last] = [0, 0, ''];
    for (const { city, date, rainMm } of observations()) {
      if (city !== name) continue;
      days = rainMm < 1 ? days + 1 : 0;
      if (days > most) [most, last] = [days, date];
    }
    return `${name}: ${most} dry days until ${last}`;
  };
  const run = await runExample('weather-cities.ts', '--param', 'wet=1');
  expect(run.outputText?.trimEnd().split('\n')).toEqual([longest('New York'), longest('Seattle')]);
});

test('files-pipeline.yaml', async () => {
  const all = observations();
  const years = ['2012', '2013', '2014', '2015'].map((year) => {
    const days = all.filter((day) => day.date.startsWith(year));
    return {
      year: Number(year),
      rain_mm: Number(sum(days.map((day) => day.rainMm)).toFixed(1)),
      hot_days: days.filter((day) => Number(day.highC) >= 30).length,
    };
  });
  const run = await runExample('files-pipeline.yaml');
  expect(JSON.parse(run.outputText ?? '')).toEqual({
    totals: [
      { name: 'rain', output: { rain_mm: Number(sum(years.map((year) => year.rain_mm)).toFixed(1)) } },
      { name: 'heat', output: { hot_days: sum(years.map((year) => year.hot_days)) } },
    ],
    years,
  });
});

test('secrets.yaml', async () => {
  const file = join(EXAMPLES, 'secrets.yaml');
  const refused = await rig.cli('run', file);
  expect(refused).toMatchObject({ code: 3, stderr: expect.stringContaining('`SIGNING_KEY` (stage sign)') });
  const { code, stdout, stderr } = await rig.startWith({ SIGNING_KEY: 'key of the example' }, 'run', file, '--json')
    .done;
  expect(code, stderr).toBe(0);
  const { runId, outputText } = JSON.parse(stdout) as RunJson & { readonly runId: string };
  const signature = createHash('sha256').update('key of the example1.2: faster builds\n').digest('hex');
  expect(outputText).toBe(`signature ${signature}, key not here\n`);
  const logs = await rig.cli('logs', runId);
  expect(logs.stdout).toContain('signing for nobody with [redacted]');
  expect(logs.stdout + logs.stderr).toContain('the variable SIGNER is not set on the host');
});

test('for-each.yaml', async () => {
  const run = await runExample('for-each.yaml');
  const rainIn = (year: number): number =>
    Number(sum(observations().flatMap(({ date, rainMm }) => (date.startsWith(`${year}-`) ? [rainMm] : []))).toFixed(1));
  expect(JSON.parse(run.outputText ?? '')).toEqual(
    [2012, 2013, 2014, 2015].map((item) => ({ item, output: rainIn(item) })),
  );
});

test('for-each-part.yaml', async () => {
  const result = await rig.cli('run', join(EXAMPLES, 'for-each-part.yaml'), '--json');
  expect(result.code, result.stderr).toBe(0);
  const run = JSON.parse(result.stdout) as RunJson & { readonly runId: string };
  const wetIn = (name: string): number =>
    observations().filter(({ city, rainMm }) => city === name && rainMm > 0).length;
  expect(JSON.parse(run.outputText ?? '')).toEqual(
    ['Seattle', 'New York'].map((item) => ({ item, output: wetIn(item) })),
  );
  // The stage that ends each item has no VM; those within have.
  const events = await rig.cli('logs', run.runId, '--json');
  const ready = events.stdout
    .trimEnd()
    .split('\n')
    .map(
      (line) =>
        JSON.parse(line) as {
          readonly body: { readonly type: string; readonly vmKey?: string; readonly isolation?: string };
        },
    )
    .flatMap(({ body }) => (body.type === 'vm-ready' ? [`${body.vmKey?.split('/')[2]} ${body.isolation}`] : []));
  expect(ready).toEqual(expect.arrayContaining(['cities~0 microvm', 'cities~1 microvm']));
});

test('for-each-nested.yaml', async () => {
  // The stage that ends the items has no VM.
  const result = await rig.cli('run', join(EXAMPLES, 'for-each-nested.yaml'), '--json');
  expect(result.code, result.stderr).toBe(0);
  const run = JSON.parse(result.stdout) as RunJson;
  expect(run.stages).toMatchObject([
    { id: 'cities', items: { total: 2, succeeded: 2, within: [{ stage: 'cities.years', total: 4, succeeded: 4 }] } },
  ]);
  const wettest = (name: string, year: number): string =>
    observations()
      .filter(({ city, date }) => city === name && date.startsWith(`${year}-`))
      .reduce((most, day) => (day.rainMm > most.rainMm ? day : most)).date;
  expect(JSON.parse(run.outputText ?? '')).toEqual(
    ['Seattle', 'New York'].map((city) => ({
      item: city,
      output: [2012, 2013].map((year) => ({ item: { city, year }, output: wettest(city, year) })),
    })),
  );
});

test('for-each-loop.yaml', async () => {
  const result = await rig.cli('run', join(EXAMPLES, 'for-each-loop.yaml'), '--json');
  expect(result.code, result.stderr).toBe(0);
  const run = JSON.parse(result.stdout) as RunJson & { readonly runId: string };
  expect(run.stages).toMatchObject([
    { id: 'numbers', state: 'succeeded' },
    { id: 'large', state: 'succeeded', attempt: 2 },
    { id: 'halve', state: 'succeeded', items: { total: 1, succeeded: 1 } },
    { id: 'rounds', state: 'succeeded' },
  ]);
  expect(JSON.parse(run.outputText ?? '')).toEqual([{ item: 15, output: 7 }]);
  const logs = async (stage: string): Promise<string> =>
    (await rig.cli('logs', run.runId, '--stage', stage, '--json')).stdout;
  const outputOf = (text: string): readonly string[] =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as { readonly body: { readonly type: string; readonly data?: string } })
      .flatMap(({ body }) => (body.type === 'output' ? [body.data ?? ''] : []));
  expect(outputOf(await logs('halve[1]'))).toEqual(['6\n']);
  expect(outputOf(await logs('halve#2[0]'))).toEqual(['7\n']);
});

test('loop.yaml', async () => {
  const result = await rig.cli('run', join(EXAMPLES, 'loop.yaml'), '--json');
  expect(result.code, result.stderr).toBe(0);
  const run = JSON.parse(result.stdout) as Omit<RunJson, 'stages'> & {
    readonly stages: readonly { readonly id: string; readonly state: string; readonly attempt: number }[];
  };
  // Newton's steps for the square root of 2, as far as `until` has them done.
  let [guess, visits] = [2, 0];
  do [guess, visits] = [Number(((guess + 2 / guess) / 2).toFixed(9)), visits + 1];
  while (Math.abs(guess * guess - 2) >= 0.001);
  expect(visits).toBeGreaterThan(2);
  expect(run.stages.map(({ id, state, attempt }) => `${id} ${state} ${attempt}`)).toEqual([
    'guess succeeded 1',
    `improve succeeded ${visits}`,
    `judge succeeded ${visits}`,
    'refine succeeded 1',
    'report succeeded 1',
  ]);
  expect((JSON.parse(run.outputText ?? '') as { guess: number }).guess).toBeCloseTo(guess, 8);
});
test('uses.yaml', async () => {
  const result = await rig.cli('run', join(EXAMPLES, 'uses.yaml'), '--json');
  expect(result.code, result.stderr).toBe(0);
  const run = JSON.parse(result.stdout) as RunJson;
  expect(run.stages.map(({ id, state, isolation }) => `${id} ${state} ${isolation ?? 'no VM'}`)).toEqual([
    'seattle.days succeeded microvm',
    'seattle.rain succeeded microvm',
    'seattle succeeded no VM',
    'new-york.days succeeded microvm',
    'new-york.rain succeeded microvm',
    'new-york succeeded no VM',
    'report succeeded microvm',
  ]);
  const rainIn = (name: string): number =>
    Number(sum(observations().flatMap(({ city, rainMm }) => (city === name ? [rainMm] : []))).toFixed(1));
  expect(JSON.parse(run.outputText ?? '')).toEqual([
    { name: 'seattle', output: rainIn('Seattle') },
    { name: 'new-york', output: rainIn('New York') },
  ]);
});

test('parts.yaml', async () => {
  const result = await rig.cli('run', join(EXAMPLES, 'parts.yaml'), '--json');
  expect(result.code, result.stderr).toBe(0);
  const run = JSON.parse(result.stdout) as RunJson & { readonly tolerated: readonly string[] };
  expect(run).toMatchObject({ state: 'succeeded', tolerated: ['paris'] });
  expect(run.stages.map(({ id, state, isolation }) => `${id} ${state} ${isolation ?? 'no VM'}`)).toEqual([
    'seattle.days succeeded microvm',
    'seattle.wet succeeded microvm',
    'seattle.note succeeded microvm',
    'seattle succeeded no VM',
    'new-york.days succeeded microvm',
    'new-york.wet succeeded microvm',
    'new-york.note succeeded microvm',
    'new-york succeeded no VM',
    'paris.days succeeded microvm',
    'paris.wet failed microvm',
    'paris.note succeeded microvm',
    'paris failed no VM',
    'report succeeded microvm',
  ]);
  const wetIn = (name: string): number =>
    observations().filter(({ city, rainMm }) => city === name && rainMm > 0).length;
  expect(JSON.parse(run.outputText ?? '')).toEqual([
    { name: 'seattle', output: wetIn('Seattle') },
    { name: 'new-york', output: wetIn('New York') },
  ]);
});

test('files.yaml', async () => {
  const run = await runExample('files.yaml');
  expect(JSON.parse(run.outputText ?? '')).toEqual([
    { item: 'data/notes/april.txt', output: 10 },
    { item: 'data/notes/may.txt', output: 6 },
  ]);
});

const waiting = async (): Promise<readonly unknown[]> =>
  (JSON.parse((await rig.cli('runs', '--waiting', '--json')).stdout) as { readonly runs: readonly unknown[] }).runs;

/** Once it is asked. */
async function approve(runId: string): Promise<void> {
  await until(`a question of ${runId}`, 180_000, async () => (await waiting()).length > 0, 500);
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

/** An example with the repository beside it that it works in by itself. */
function besideCalculator(example: string): { readonly spec: string; readonly app: Calculator } {
  const app = new Calculator(rig.specDir);
  return { spec: rig.spec(example, readFileSync(join(EXAMPLES, example), 'utf8')), app };
}

test('review-skill.yaml', async () => {
  const run = await runExample('review-skill.yaml', '--mock-agents');
  expect(run.outputText).toMatch(/^approved: true\n\| by \| approved \| remarks \|\n/);
  for (const by of ['correctness', 'security', 'clarity']) expect(run.outputText).toContain(`| ${by}`);
});

test('fix-a-test.yaml', { timeout: 180_000 }, async () => {
  const { spec, app } = besideCalculator('fix-a-test.yaml');
  const run = await rig.cli('run', spec, '--mock-agents', '--run-id', 'fix-a-test');
  expect(run.code, run.stderr).toBe(0);
  expect(run.stdout).toBe('2 + 3 is 5\n');
  expect((await rig.cli('apply', 'fix-a-test', '--branch')).code).toBe(0);
  expect(app.git('log', '--format=%s', 'voidbox/fix-a-test/test')).toBe('add.sh: it adds\na calculator\n');
  expect((await rig.cli('apply', 'fix-a-test')).code).toBe(0);
  expect(app.test()).toBe('2 + 3 is 5\n');
});

test('review-a-patch.yaml', async () => {
  const { spec } = besideCalculator('review-a-patch.yaml');
  const run = await rig.cli('run', spec, '--mock-agents', '--run-id', 'review-a-patch', '--json');
  expect(run.code, run.stderr).toBe(0);
  const { outputText } = JSON.parse(run.stdout) as RunJson;
  expect(JSON.parse(outputText ?? '')).toEqual({ verdict: 'change', changes: ['Let add.sh add.'] });
  const raw = async (stage: string): Promise<string> =>
    (await rig.cli('logs', 'review-a-patch', '--stage', stage, '--raw')).stdout;
  expect(await raw('mistakes'), 'it reads the commit').toContain('+echo $(($1 - $2))');
  const merge = (await raw('merge')).replaceAll('\\', '');
  for (const [name, output] of [
    ['mistakes', 'add.sh:1 subtracts.'],
    ['tests', 'No test covers add.sh.'],
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
  const started = await rig.cli('run', spec, '--mock-agents', '--run-id', 'notes', '--detach');
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
  while ((await waiting()).length === 0) await sleep(500);
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
  const statusOf = async (): Promise<string> => (await rig.cli('status', runId)).stdout;
  while (!(await statusOf()).includes(`voidbox approve ${runId} 'regions[1].ok'`)) await sleep(500);
  expect(await statusOf()).toContain('regions[0].ok: Deploy there? (item "eu"; until');
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
  // Also after the end of the run the same answer is taken as the one that stands.
  expect((await rig.cli('approve', runId, 'regions[0].ok', '--by', 'ada')).code).toBe(0);
  expect((await rig.cli('approve', runId, 'regions[0].ok', '--by', 'eve')).code).toBe(1);
});

test('sandbox.ts', async () => {
  const wet = observations().filter((day) => day.rainMm >= 10);
  const count = (city: string): number => wet.filter((day) => day.city === city).length;
  // As it is compiled: earlier versions of Node do not read TypeScript.
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

test('wet-days.ts', async () => {
  const wet = observations().filter((day) => day.rainMm >= 25);
  // As it is compiled, from where its mounts do not start.
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
  const run = await runExample('conditions.yaml', '--param', `env=${env}`);
  expect(run.outputText).toBe(text);
  expect(Object.fromEntries(run.stages.map(({ id, state }) => [id, state]))).toMatchObject(states);
});

test('outputs-in-arguments.yaml', async () => {
  const run = await runExample('outputs-in-arguments.yaml');
  expect(run.outputText).toMatch(/^v2\.7\|it's \S*\nline 2$/);
});

test('mocks.yaml', async () => {
  const run = await runExample('mocks.yaml', '--mock');
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
