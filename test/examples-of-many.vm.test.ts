/** The examples of lists, loops and parts, tested like the examples of `examples.vm.test.ts`. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Rig } from './e2e/rig.ts';
import { EXAMPLES, endRig, observations, runExample, sum, type RunJson } from './rig/runs/examples.ts';

let rig: Rig;
beforeAll(() => {
  rig = new Rig();
});
afterAll(() => endRig(rig));

test('for-each.yaml', async () => {
  const run = await runExample(rig, 'for-each.yaml');
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
  const run = await runExample(rig, 'files.yaml');
  expect(JSON.parse(run.outputText ?? '')).toEqual([
    { item: 'data/notes/april.txt', output: 10 },
    { item: 'data/notes/may.txt', output: 6 },
  ]);
});
