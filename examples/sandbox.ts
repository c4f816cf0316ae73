// A micro-VM without a pipeline: a program puts data in, runs commands, and reads what they made.
//   voidbox doctor                      (once: what this machine lacks)
//   node examples/sandbox.ts            (Node 22.18 or later; earlier: npx tsx)
import { readFile } from 'node:fs/promises';
import { Sandbox } from 'voidbox/sandbox';

const data = process.argv[2] ?? new URL('data/weather.csv', import.meta.url);
const print = (line: string): void => void process.stdout.write(`${line}\n`);

const vm = await Sandbox.launch({ name: 'weather', memoryMib: 256, env: { WET: '10' } });
try {
  // In the background: it answers each line as long as its input is open.
  const counter = await vm.spawn('awk', ['{ n += length($0); print n; fflush() }'], { id: 'counter', stdin: 'pipe' });

  await vm.writeFile('/workspace/weather.csv', await readFile(data));
  const wet = '$3 + 0 >= ENVIRON["WET"] + 0 { days[$1] += 1 } END { for (city in days) print city ": " days[city] }';
  const { exitCode, stdout, stderr } = await vm.exec('awk', ['-F,', wet, '/workspace/weather.csv']);
  if (exitCode !== 0) throw new Error(`awk failed with ${exitCode}: ${stderr}`);
  for (const line of stdout.trim().split('\n').sort()) print(`days with 10 mm and more in ${line}`);

  for (const word of ['micro', 'VM']) await counter.stdin?.write(`${word}\n`);
  counter.stdin?.end();
  for await (const chunk of counter.stdout)
    for (const count of Buffer.from(chunk).toString().trim().split('\n')) print(`letters so far: ${count}`);
  const usage = await vm.usage();
  print(usage !== null && usage.cpuMs !== null && usage.cpuMs > 0 ? 'the host counted its CPU time' : 'no usage');
} finally {
  // With TypeScript 5.2 or later, or Node 24: `await using vm = …` does this.
  await vm.close();
}
