/** Each example, run by the real command line in real VMs; results are compared with values computed here from the data. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Rig } from './e2e/rig.ts';

const EXAMPLES = join(dirname(fileURLToPath(import.meta.url)), '..', 'examples');

interface RunJson {
  readonly state: string;
  readonly outputText: string | null;
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
      .filter((name) => name.endsWith('.yaml'))
      .toSorted(),
  ).toEqual(['files-pipeline.yaml', 'hello.yaml', 'weather-dag.yaml']);
});

test('hello.yaml', async () => {
  const run = await runExample('hello.yaml', '--param', 'name=Ada "L" $HOME');
  const [greeting, machine, total] = (run.outputText ?? '').split('\n');
  expect(greeting).toBe('Hello, Ada "L" $HOME!');
  expect(machine).toMatch(/^This VM runs Linux \d+\.\d+\S* as user sandbox\.$/);
  expect(total).toBe('1 + 2 + ... + 100 = 5050');
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
