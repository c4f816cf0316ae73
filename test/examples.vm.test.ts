/** Each example, run by the real command line in real VMs; results are compared with values computed here from the data. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Rig, until } from './e2e/rig.ts';
import { EXAMPLES, endRig, first, observations, runExample, sum, type RunJson } from './rig/runs/examples.ts';

const HERE = dirname(fileURLToPath(import.meta.url));

let rig: Rig;
beforeAll(() => {
  rig = new Rig();
});
afterAll(() => endRig(rig));

test('every example has its test', () => {
  const titles = readdirSync(HERE)
    // The example of the client needs an installed package.
    .filter((name) => /^(?:examples.*|package)\.vm\.test\.ts$/.test(name))
    .flatMap((name) => [
      ...readFileSync(join(HERE, name), 'utf8').matchAll(
        /^(?:test(?:\.skipIf\(.*\))?|\]\))\(['`]([\w-]+\.(?:yaml|ts))\b/gm,
      ),
    ])
    .map(([, example]) => example);
  expect([...new Set(titles)].toSorted()).toEqual(
    readdirSync(EXAMPLES)
      .filter((name) => /\.(yaml|ts)$/.test(name))
      .toSorted(),
  );
});

test('hello.yaml', async () => {
  const run = await runExample(rig, 'hello.yaml', '--param', 'name=Ada "L" $HOME');
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
  expect(result.code).toBe(0);
  const { state, outputText } = JSON.parse(result.stdout) as RunJson;
  expect(state).toBe('cancelled');
  expect((JSON.parse(outputText!) as { readonly looks: number }).looks).toBeGreaterThan(first);
});

test('dev-image.yaml', { timeout: 1_200_000 }, async () => {
  const { outputText } = await runExample(rig, 'dev-image.yaml');
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
  const run = await runExample(rig, 'retry.yaml');
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
  const run = await runExample(rig, 'weather-dag.yaml');
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
  const run = await runExample(rig, 'weather-cities.ts', '--param', 'wet=1');
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
  const run = await runExample(rig, 'files-pipeline.yaml');
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
