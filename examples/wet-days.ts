// The wet days of each city (data/weather.csv): a program that runs a pipeline, written as a chain, and has its typed result.
//   node examples/wet-days.ts 10        (Node 22.18 or later; earlier: npx tsx)
import { fileURLToPath } from 'node:url';
import { box, items, param, Pipeline, RunError } from 'voidbox';

const data = { host: './data', guest: '/data' };

const cities = box(
  'cities',
  [
    'awk',
    '-F,',
    'NR > 1 && !seen[$1]++ { list = list sep "\\"" $1 "\\""; sep = ", " } END { print "[" list "]" }',
    '/data/weather.csv',
  ],
  {
    sandbox: { memoryMib: 256, mounts: [data] },
  },
);

// The item is JSON: a name in quotes.
const COUNT = `awk -F, '"\\"" $1 "\\"" == ENVIRON["VOIDBOX_ITEM"] && $3 >= ENVIRON["WET"] + 0 { n++ } END { print n + 0 }' /data/weather.csv`;
const count = box('count', ['sh', '-c', COUNT], {
  env: { WET: param('wet') },
  sandbox: { memoryMib: 256, mounts: [data] },
});

const pipeline = Pipeline.named('wet-days', {
  params: { wet: { type: 'number', min: 0, description: 'mm of rain from which a day is wet' } },
})
  .pipe(cities)
  .forEach(items(cities), count, { maxParallel: 2 });

const print = (line: string): void => void process.stdout.write(`${line}\n`);
try {
  const { runId, output } = await pipeline.run({
    params: { wet: Number(process.argv[2] ?? 10) },
    baseDir: process.argv[3] ?? fileURLToPath(new URL('.', import.meta.url)),
    onProgress: (line) => process.stderr.write(`${line}\n`),
  });
  for (const result of output ?? []) print(`${String(result.item)}: ${String(result.output)} wet days`);
  print(`see what it did: voidbox status ${runId}`);
} catch (error) {
  if (!(error instanceof RunError)) throw error;
  print(`${error.code}: ${error.message}${error.remedy === null ? '' : `\n${error.remedy}`}`);
  process.exitCode = 1;
}
