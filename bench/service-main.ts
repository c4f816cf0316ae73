/**
 * `npm run bench:service [figure …] [--rounds N] [--no-write]`: figures of the HTTP API, each printed and written to
 * docs/reference/benchmarks-service.md when it is taken.
 */
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { locateApiSocket } from '../client/embedded/api-socket.ts';
import { ensureStack, stopStack } from '../client/embedded/stack.ts';
import { createApiMachine } from '../server/machine.ts';
import { readEnvironment } from '../setup/environment.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { openStores } from '../store/open-stores.ts';
import { doAtEnd } from './guard/guard.mjs';
import { interleave, measurePairedRatio, spread } from './measure.ts';
import type { Figure } from './report.ts';
import { type Bench, runFigures } from './command/run-figures.ts';
import { type ApiProcess, startApiProcess } from './service/api-process.ts';
import {
  createDelayArm,
  createFollowerArm,
  createMemoryArm,
  createReadersArm,
  createStalledArm,
  type ReadersBench,
} from './service/readers.ts';
import { createApiStartArm, createDirectStartArm, createListArm } from './service/starts.ts';

const FIGURES: Readonly<Record<string, (bench: Bench) => Promise<Figure>>> = {
  readers: (bench) => withReaders(bench, measureReaders),
  memory: (bench) => withReaders(bench, measureMemory),
  delay: (bench) => withReaders(bench, measureDelay),
  start: measureStarts,
};

async function withReaders(
  bench: Bench,
  measure: (readers: ReadersBench, bench: Bench) => Promise<Figure>,
): Promise<Figure> {
  const folder = mkdtempSync(join(bench.workDir, 'readers-'));
  const stateDir = join(folder, 'state');
  const stores = await openStores({ stateDir, durability: 'process' });
  try {
    await using api: ApiProcess = await startApiProcess(folder, stateDir);
    return await measure({ api, stores }, bench);
  } finally {
    await stores.close();
  }
}

async function measureReaders(readers: ReadersBench, { rounds, say }: Bench): Promise<Figure> {
  const [few, many] = await interleave([createReadersArm(readers, 50), createReadersArm(readers, 500)], rounds, say);
  const ratio = measurePairedRatio(many!, few!, 'cpuUs');
  return {
    title: 'CPU of a reader',
    method:
      'The process of the API on a socket of the bench. So many streams follow one run, to which the bench appends 200 events of 200 characters, 5 ms apart. The figure is the CPU of the service for one event at one reader.',
    rows: [few!, many!].map((result) => ({
      what: result.name,
      value: spread(result.rounds.map(({ cpuUs }) => cpuUs)),
      unit: 'µs',
    })),
    goals: [{ what: '500 readers against 50, paired', value: ratio.median, goal: '≤ 1.2', met: ratio.median <= 1.2 }],
  };
}

async function measureMemory(readers: ReadersBench, { rounds, say }: Bench): Promise<Figure> {
  const [reading, stalled] = await interleave(
    [createMemoryArm(readers, 500), createStalledArm(readers, 20)],
    rounds,
    say,
  );
  const values = [reading!, stalled!].map((result) => spread(result.rounds.map(({ kib }) => kib)));
  return {
    title: 'Memory of a reader',
    method:
      'The growth of the resident memory of the service, divided by the readers. Those that do not read let 16 MiB of events pass.',
    rows: [reading!, stalled!].map(({ name }, at) => ({ what: name, value: values[at]!, unit: 'KiB' })),
    goals: [
      { what: 'a reader that reads', value: values[0]!.median, goal: '≤ 64 KiB', met: values[0]!.median <= 64 },
      {
        what: 'a reader that does not read',
        value: values[1]!.median,
        goal: '≤ 1,024 KiB',
        met: values[1]!.median <= 1_024,
      },
    ],
  };
}

async function measureDelay(readers: ReadersBench, { rounds, say }: Bench): Promise<Figure> {
  const [api, store] = await interleave([createDelayArm(readers), createFollowerArm(readers)], rounds, say);
  const more = spread(api!.rounds.map(({ p95Ms }, at) => p95Ms - store!.rounds[at]!.p95Ms));
  return {
    title: 'Delay of an event',
    method:
      'The time from the start of an append until the reader has the event, 200 events a round, one after the other; 95 of 100 are faster.',
    rows: [api!, store!].map((result) => ({
      what: result.name,
      value: spread(result.rounds.map(({ p95Ms }) => p95Ms)),
      unit: 'ms',
    })),
    goals: [{ what: 'more than the file store, paired', value: more.median, goal: '≤ 20 ms', met: more.median <= 20 }],
  };
}

async function measureStarts({ workDir, rounds, say }: Bench): Promise<Figure> {
  const stateDir = mkdtempSync(join(workDir, 'stack-'));
  const env = { ...readEnvironment(), stateDir };
  const forget = doAtEnd({
    run: [process.execPath, join(findPackageRoot(), 'bin', 'voidbox.js'), 'down'],
    env: { ...process.env, VOIDBOX_STATE_DIR: stateDir },
  });
  await ensureStack(env, { onProgress: say });
  try {
    const machine = createApiMachine(env, () => undefined);
    const stores = await machine.stores();
    const socket = locateApiSocket(stateDir);
    const [direct, api] = await interleave(
      [createDirectStartArm(machine, workDir), createApiStartArm(socket, workDir)],
      rounds,
      say,
    );
    const here = { ...process.env, VOIDBOX_STATE_DIR: stateDir };
    const remote = { ...process.env, VOIDBOX_STATE_DIR: join(workDir, 'elsewhere'), VOIDBOX_SERVER: `unix:${socket}` };
    const [local, through] = await interleave(
      [createListArm('`voidbox runs` on this machine', here), createListArm('`voidbox runs` through the API', remote)],
      rounds,
      say,
    );
    await (await machine.stackLink?.())?.client().connection.close();
    await stores.close();
    const starts = measurePairedRatio(api!, direct!, 'p95Ms').median;
    const lists = measurePairedRatio(through!, local!, 'wallMs').median;
    return {
      title: 'Starts and lists',
      method:
        'The embedded stack. A start has a stage without a VM, and ends with the admission of the run; 20 starts a round, of which 95 of 100 are faster. A list is a process of the command line, from its start to its end.',
      rows: [
        ...[direct!, api!].map((result) => ({
          what: result.name,
          value: spread(result.rounds.map(({ p95Ms }) => p95Ms)),
          unit: 'ms',
        })),
        ...[local!, through!].map((result) => ({
          what: result.name,
          value: spread(result.rounds.map(({ wallMs }) => wallMs)),
          unit: 'ms',
        })),
      ],
      goals: [
        {
          what: 'a start through the API against this process, paired',
          value: starts,
          goal: '≤ 1.3',
          met: starts <= 1.3,
        },
        { what: 'a list through the API against this machine, paired', value: lists, goal: '≤ 1.5', met: lists <= 1.5 },
      ],
    };
  } finally {
    await stopStack(env);
    forget();
  }
}

await runFigures({
  command: 'bench:service',
  title: 'Benchmarks of the service',
  page: 'benchmarks-service.md',
  figures: FIGURES,
  describeFacts: (rounds) => [`Clients and servers as processes on this machine; ${rounds} rounds.`],
  prepare: (bench) => Promise.resolve(bench),
});
