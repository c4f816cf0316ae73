// A disk that is prepared once, and VMs that start with a copy of it.
//   node examples/checkpoint.ts         (Node 22.18 or later; earlier: npx tsx)
import { Sandbox } from 'voidbox/sandbox';

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const size = { memoryMib: 256, diskMib: 64 };

const maker = await Sandbox.launch(size);
try {
  // In practice: install packages, clone a repository, fill a cache.
  await maker.exec('sh', ['-c', 'seq 1 1000 > numbers && mkdir sums']);
  const { usedBytes } = await maker.checkpoint({ name: 'numbers', replace: true });
  print(usedBytes < 16_000_000 ? 'the checkpoint is small' : 'the checkpoint is large');
} finally {
  await maker.close();
}

const readers = await Promise.all([1, 2].map(() => Sandbox.launch({ ...size, from: 'numbers' })));
try {
  for (const [index, vm] of readers.entries()) {
    const { stdout } = await vm.exec('sh', [
      '-c',
      `awk '{ s += $1 } END { print s + ${index} }' numbers | tee sums/own`,
    ]);
    print(`VM ${index + 1} sees ${stdout.trim()}`);
  }
} finally {
  for (const vm of readers) await vm.close();
}

const [checkpoint] = (await Sandbox.checkpoints()).filter(({ name }) => name === 'numbers');
await checkpoint?.delete();
print('deleted');
