/**
 * `npm run bench [figure …] [--rounds N] [--no-write]`: takes the figures named (all by default), prints them and
 * writes docs/benchmarks.md when all were taken.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { SandboxBackend } from '../activities/ports/sandbox.ts';
import { createQemuBackend } from '../sandbox/micro-vm/backend.ts';
import { type Environment, readEnvironment } from '../setup/environment.ts';
import { readHostMemory } from '../setup/host-memory.ts';
import type { HostPieces } from '../setup/host-pieces.ts';
import { packageRoot } from '../setup/package-root.ts';
import { resolveHostPieces, SetupError } from '../setup/resolve.ts';
import { openStores } from '../store/open-stores.ts';
import { cliArms } from './cli.ts';
import { measureMemory } from './memory.ts';
import { type ArmResult, format, interleave, loadLine, pairedRatio, spread } from './measure.ts';
import { recoveryArm } from './recovery.ts';
import { type Figure, type FigureRow, type Lane, renderReport } from './report.ts';
import { type BenchProcess, startNode, startServer, TUNED_FLAGS } from './servers.ts';
import { around, soak } from './soak.ts';
import { SHAPES, SIZES, transitionArm } from './transitions.ts';
import { IN_A_ROW, noopSpec, stageArm, type StageMeasure, wideSpec, WIDE, WIDTH } from './stages.ts';
import { coldBootArm, execArm, fileArm, warmVm } from './vm.ts';

/** The worker's heartbeat timeout in seconds; @see workflows/activity-options.ts */
const HEARTBEAT_TIMEOUT_S = 10;

const SOAK_RUNS = 5_000;
const SOAK_EARLY_RUNS = 1_000;
const SOAK_WINDOW = 500;
const SOAK_SAMPLE_EVERY = 25;

interface Bench {
  readonly env: Environment;
  readonly pieces: HostPieces;
  /** Our own kernel beside Debian's, where it is built. */
  readonly ownKernel: HostPieces | null;
  readonly root: string;
  readonly workDir: string;
  readonly rounds: number;
  readonly say: (line: string) => void;
}

const FIGURES: Readonly<Record<string, (bench: Bench) => Promise<Figure>>> = {
  stages: stageFigure,
  transitions: transitionFigure,
  wide: wideFigure,
  boot: bootFigure,
  exec: execFigure,
  files: fileFigure,
  memory: memoryFigure,
  cli: cliFigure,
  recovery: recoveryFigure,
  soak: soakFigure,
};

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { rounds: { type: 'string', default: '5' }, 'no-write': { type: 'boolean', default: false } },
  });
  const names = positionals.length === 0 ? Object.keys(FIGURES) : positionals;
  const unknown = names.filter((name) => !(name in FIGURES));
  const rounds = Number(values.rounds);
  if (unknown.length > 0 || !Number.isInteger(rounds) || rounds < 1)
    throw new Error(
      `usage: bench [${Object.keys(FIGURES).join('|')} …] [--rounds N] [--no-write]; got ${[...unknown, values.rounds].join(' ')}`,
    );
  const env = readEnvironment();
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  const pieces = await resolveHostPieces(env, { install: true, kernelKind: 'debian', onProgress: say });
  const ownKernel = await resolveHostPieces(env, { install: false, kernelKind: 'voidbox' }).catch((error: unknown) => {
    if (error instanceof SetupError) return null;
    throw error;
  });
  if (ownKernel === null)
    say('our own kernel is not built (`npm run kernel`): figures of the VM are taken on the Debian kernel alone');
  const workDir = mkdtempSync(join(tmpdir(), 'voidbox-bench-'));
  const loads: string[] = [`at the start ${loadLine()}`];
  try {
    const figures: Figure[] = [];
    for (const name of names) {
      say(`\n${name} (${loadLine()})`);
      figures.push(await FIGURES[name]!({ env, pieces, ownKernel, root: packageRoot(), workDir, rounds, say }));
      loads.push(`after ${name} ${loadLine()}`);
    }
    const report = renderReport(
      figures,
      laneOf(pieces, ownKernel, rounds, loads),
      new Date().toISOString().slice(0, 10),
    );
    say(`\n${report}`);
    if (names.length === Object.keys(FIGURES).length && !values['no-write'])
      writeFileSync(join(packageRoot(), 'docs', 'benchmarks.md'), report);
  } finally {
    rmSync(workDir, { recursive: true, force: true });
  }
}

function laneOf(pieces: HostPieces, ownKernel: HostPieces | null, rounds: number, loads: readonly string[]): Lane {
  const { kvm } = JSON.parse(execFileSync(pieces.keeper, ['host'], { encoding: 'utf8' })) as { kvm: string };
  const firstLine = (program: string): string =>
    execFileSync(program, ['--version'], { encoding: 'utf8' }).split('\n')[0]!.trim();
  return {
    accelerator: kvm === 'hardware' ? 'kvm' : `tcg (KVM of this host: ${kvm})`,
    kernels: [pieces, ...(ownKernel === null ? [] : [ownKernel])].map(
      ({ kernel }) => `${kernel.kind} ${kernel.version}`,
    ),
    qemu: firstLine(pieces.qemu),
    temporal: firstLine(pieces.temporalCli),
    rounds,
    loads,
  };
}

async function stageFigure(bench: Bench): Promise<Figure> {
  const { pieces, workDir } = bench;
  await using tuned = await startServer(pieces.temporalCli, join(workDir, 'tuned.db'), TUNED_FLAGS);
  await using stock = await startServer(pieces.temporalCli, join(workDir, 'stock.db'), []);
  await using bareTuned = await startBareWorker(bench, tuned.address);
  await using bareStock = await startBareWorker(bench, stock.address);
  await using ours = await startOurWorker(bench, tuned.address, 'stages-state');
  const bare = {
    taskQueue: 'bare',
    workflowType: 'bareLoop',
    lengths: IN_A_ROW,
    argsFor: (stages: number) => [stages],
  };
  const arms = [
    await stageArm({
      name: 'voidbox, tuned server',
      address: tuned.address,
      workerPid: ours.pid,
      taskQueue: 'voidbox',
      workflowType: 'voidboxRun',
      lengths: IN_A_ROW,
      argsFor: (stages) => [{ spec: noopSpec(stages) }],
    }),
    await stageArm({ name: 'bare loop, tuned server', address: tuned.address, workerPid: bareTuned.pid, ...bare }),
    await stageArm({
      ...bare,
      name: 'bare loop without eager start, tuned server',
      address: tuned.address,
      workerPid: bareTuned.pid,
      workflowType: 'bareLoopDispatched',
    }),
    await stageArm({ name: 'bare loop, stock server', address: stock.address, workerPid: bareStock.pid, ...bare }),
  ];
  const results = await interleave(arms, bench.rounds, bench.say);
  type Result = ArmResult<StageMeasure>;
  const [path, bareLoop, dispatchedLoop, stockLoop] = results as [Result, Result, Result, Result];
  const toBare = pairedRatio(path, bareLoop, 'msPerStage').median;
  const toStock = pairedRatio(path, stockLoop, 'msPerStage').median;
  const cpu = pairedRatio(path, bareLoop, 'workerCpuMsPerStage').median;
  return {
    title: '(a) What a stage costs beside its work',
    method:
      'A stage that does nothing (mock sandbox) through the whole path, against a bare loop of no-op activities; the slope between a run of 5 and one of 55 stages. Both servers keep a SQLite file. On the embedded server a stage comes with the answer to the workflow task (eager start), as it does in the bare loop; a host of several has a queue of its own, so one arm does without. Each arm first runs 110 stages that are not counted.',
    rows: results.flatMap(stageRows),
    goals: [
      {
        what: 'latency against the bare loop on the same server, paired',
        value: toBare,
        goal: '≤ 1.15',
        met: toBare <= 1.15,
      },
      {
        what: 'worker CPU against the bare loop on the same server, paired',
        value: cpu,
        goal: '≤ 1.2',
        met: cpu <= 1.2,
      },
      {
        what: 'latency against the bare loop on a stock server, paired',
        value: toStock,
        goal: '≤ 0.5',
        met: toStock <= 0.5,
      },
    ],
    ratios: [
      {
        what: 'latency against the bare loop without eager start on the same server, paired',
        value: pairedRatio(path, dispatchedLoop, 'msPerStage').median,
      },
    ],
  };
}

async function transitionFigure(bench: Bench): Promise<Figure> {
  const arms = SHAPES.flatMap((shape) => SIZES.map((stages) => transitionArm(shape, stages)));
  const results = await interleave(arms, bench.rounds, bench.say);
  const perShape = SHAPES.map((shape, index) => ({
    shape,
    sizes: results.slice(index * SIZES.length, (index + 1) * SIZES.length),
  }));
  const slowestUs = Math.max(...results.map((result) => spread(result.rounds.map(({ us }) => us)).median));
  return {
    title: '(i) What a transition of the run machine costs',
    method:
      'CPU time of whole runs in which all goes well, `max_parallel: 50`, by their transitions; no server, no VM.',
    rows: results.map((result) => ({
      what: result.name,
      value: spread(result.rounds.map(({ us }) => us)),
      unit: 'µs a transition',
    })),
    goals: [
      ...perShape.flatMap(({ shape, sizes: [least, ...larger] }) =>
        larger.map((result, index) => {
          const value = pairedRatio(result, least!, 'us').median;
          return {
            what: `${shape}: ${SIZES[index + 1]} stages against ${SIZES[0]}, paired`,
            value,
            goal: '≤ 3',
            met: value <= 3,
          };
        }),
      ),
      {
        what: 'transitions a second where they cost most',
        value: 1_000_000 / slowestUs,
        goal: '≥ 100,000',
        met: slowestUs <= 10,
      },
    ],
  };
}

function stageRows({ name, rounds }: ArmResult<StageMeasure>): readonly FigureRow[] {
  const row = (what: string, measure: StageMeasure, unit: string): FigureRow => ({
    what: `${name}: ${what}`,
    value: spread(rounds.map((round) => round[measure])),
    unit: `${unit} a stage`,
  });
  return [
    row('latency', 'msPerStage', 'ms'),
    row('worker CPU', 'workerCpuMsPerStage', 'ms'),
    row('history', 'eventsPerStage', 'events'),
    row('history', 'bytesPerStage', 'bytes'),
  ];
}

async function wideFigure(bench: Bench): Promise<Figure> {
  await using server = await startServer(bench.pieces.temporalCli, join(bench.workDir, 'wide.db'), TUNED_FLAGS);
  await using bareWorker = await startBareWorker(bench, server.address);
  await using ours = await startOurWorker(bench, server.address, 'wide-state');
  const common = { address: server.address, lengths: WIDE };
  const results = await interleave(
    [
      await stageArm({
        ...common,
        name: 'voidbox',
        workerPid: ours.pid,
        taskQueue: 'voidbox',
        workflowType: 'voidboxRun',
        argsFor: (stages) => [{ spec: wideSpec(stages) }],
      }),
      await stageArm({
        ...common,
        name: 'bare fan-out',
        workerPid: bareWorker.pid,
        taskQueue: 'bare',
        workflowType: 'bareFanOut',
        argsFor: (stages) => [stages, WIDTH],
      }),
    ],
    bench.rounds,
    bench.say,
  );
  const [path, bare] = results as [ArmResult<StageMeasure>, ArmResult<StageMeasure>];
  const latency = pairedRatio(path, bare, 'msPerStage').median;
  return {
    title: '(a2) What a stage costs beside others',
    method: `As (a), of stages without an order: the slope between a run of ${WIDE.short} and one of ${WIDE.long} stages, ${WIDTH} at a time, against a fan-out of no-op activities of the same width on the same server.`,
    rows: results.flatMap(stageRows),
    goals: [{ what: 'latency against the bare fan-out, paired', value: latency, goal: '≤ 1.3', met: latency <= 1.3 }],
    ratios: [
      {
        what: 'worker CPU against the bare fan-out, paired',
        value: pairedRatio(path, bare, 'workerCpuMsPerStage').median,
      },
    ],
  };
}

function startBareWorker({ root, env }: Bench, address: string): Promise<BenchProcess> {
  return startNode(
    [join(root, 'dist', 'bench', 'bare-worker.js'), address, join(root, 'dist', 'bench', 'bare-workflow.js')],
    env.variables,
    /ready/,
  );
}

function startOurWorker(
  { root, env, workDir, pieces }: Bench,
  address: string,
  stateDir: string,
): Promise<BenchProcess> {
  const server = ['--address', address, '--embedded'];
  const files = ['--state-dir', join(workDir, stateDir), '--pieces', JSON.stringify(pieces)];
  return startNode(
    [join(root, 'dist', 'workers', 'main.js'), ...server, ...files],
    env.variables,
    /voidbox-worker ready/,
  );
}

function backendOf(bench: Bench, pieces: HostPieces): SandboxBackend {
  return createQemuBackend({
    vmsDir: join(bench.workDir, 'vms'),
    keeper: pieces.keeper,
    pieces: () => Promise.resolve(pieces),
    hostMemoryMib: () => readHostMemory().totalMib,
  });
}

function lanes(bench: Bench): readonly { readonly name: string; readonly backend: SandboxBackend }[] {
  const own = bench.ownKernel;
  return [
    { name: `Debian ${bench.pieces.kernel.version}`, backend: backendOf(bench, bench.pieces) },
    ...(own === null ? [] : [{ name: `ours ${own.kernel.version}`, backend: backendOf(bench, own) }]),
  ];
}

async function bootFigure(bench: Bench): Promise<Figure> {
  const results = await interleave(
    lanes(bench).map(({ name, backend }) => coldBootArm(name, backend)),
    bench.rounds,
    bench.say,
  );
  return {
    title: '(b) Cold boot to the first command',
    method:
      "From the call to the first command's exit, 256 MiB, one vCPU. The share that is ours is what is left when the time from the start of the VMM to the agent's hello is taken out.",
    rows: results.flatMap((result) => [
      {
        what: `${result.name}: to the first command's exit`,
        value: spread(result.rounds.map((round) => round.toFirstExecMs)),
        unit: 'ms',
      },
      {
        what: `${result.name}: VMM, kernel and init, to hello`,
        value: spread(result.rounds.map((round) => round.kernelAndInitMs)),
        unit: 'ms',
      },
      { what: `${result.name}: ours`, value: spread(result.rounds.map((round) => round.oursMs)), unit: 'ms' },
    ]),
    goals: [],
  };
}

async function execFigure(bench: Bench): Promise<Figure> {
  const rows = [];
  for (const { name, backend } of lanes(bench)) {
    await using warm = await warmVm(backend);
    const [result] = await interleave([execArm(name, warm.vm)], bench.rounds, bench.say);
    rows.push({ what: name, value: spread(result!.rounds.map((round) => round.roundTripMs)), unit: 'ms' });
  }
  return {
    title: '(c) A command on a warm VM',
    method: 'Start to exit of `true`, the record durable on both ends, mean of 20 in a row.',
    rows,
    goals: [],
  };
}

async function fileFigure(bench: Bench): Promise<Figure> {
  const rows = [];
  const goals = [];
  for (const { name, backend } of lanes(bench)) {
    await using warm = await warmVm(backend);
    const [result] = await interleave([fileArm(name, warm.vm)], bench.rounds, bench.say);
    const write = spread(result!.rounds.map((round) => round.writeMbPerS));
    const read = spread(result!.rounds.map((round) => round.readMbPerS));
    rows.push(
      { what: `${name}: write`, value: write, unit: 'MB/s' },
      { what: `${name}: read`, value: read, unit: 'MB/s' },
    );
    goals.push(
      { what: `${name}: write`, value: write.median, goal: '≥ 100 MB/s', met: write.median >= 100 },
      { what: `${name}: read`, value: read.median, goal: '≥ 100 MB/s', met: read.median >= 100 },
    );
  }
  return {
    title: '(d) Files in and out',
    method: 'One file of 64 MiB through the file operations of the sandbox, owner and mode set, checked by count.',
    rows,
    goals,
  };
}

async function memoryFigure(bench: Bench): Promise<Figure> {
  const { pieces, env, workDir, root } = bench;
  const stateDir = join(workDir, 'memory-state');
  await using server = await startServer(pieces.temporalCli, join(workDir, 'memory.db'), TUNED_FLAGS);
  await using worker = await startNode(
    [
      join(root, 'dist', 'workers', 'main.js'),
      '--address',
      server.address,
      '--embedded',
      '--state-dir',
      stateDir,
      '--pieces',
      JSON.stringify(pieces),
    ],
    env.variables,
    /voidbox-worker ready/,
  );
  const measured = await measureMemory({
    address: server.address,
    workerPid: worker.pid,
    stateDir,
    rounds: bench.rounds,
    say: bench.say,
  });
  return {
    title: '(e) Memory',
    method:
      "Resident memory of the worker with four stages running in four VMs against none, by stage; of QEMU beside the guest's 256 MiB: its resident memory that is not the guest's; of the keeper.",
    rows: [
      { what: 'worker, idle', value: measured.workerIdleMib, unit: 'MiB' },
      { what: 'worker, more for each running stage', value: measured.workerPerStageMib, unit: 'MiB' },
      { what: 'QEMU beside guest memory', value: measured.qemuBesideGuestMib, unit: 'MiB' },
      { what: 'keeper', value: measured.keeperMib, unit: 'MiB' },
    ],
    goals: [],
  };
}

async function cliFigure(bench: Bench): Promise<Figure> {
  const results = await interleave(
    cliArms(join(bench.root, 'bin', 'voidbox.js'), bench.workDir),
    Math.max(bench.rounds, 5),
    bench.say,
  );
  const median = (name: string): number =>
    spread(results.find((result) => result.name === name)!.rounds.map((round) => round.cpuMs)).median;
  const [help, validate] = [median('voidbox --help'), median('voidbox validate')];
  return {
    title: '(f) Light commands',
    method:
      'CPU time (user and system) of the whole process, beside that of a Node process that does nothing; without `NODE_EXTRA_CA_CERTS`, which Node 20 reads with each start.',
    rows: results.map((result) => ({
      what: result.name,
      value: spread(result.rounds.map((round) => round.cpuMs)),
      unit: 'ms CPU',
    })),
    goals: [
      { what: '`voidbox --help` in ms', value: help, goal: '≤ 120', met: help <= 120 },
      { what: '`voidbox validate` in ms', value: validate, goal: '≤ 200', met: validate <= 200 },
    ],
  };
}

/** Once, whatever the number of rounds: it is as long as all the others together. */
async function soakFigure({ pieces, workDir, root, env, say }: Bench): Promise<Figure> {
  await using server = await startServer(pieces.temporalCli, join(workDir, 'soak.db'), TUNED_FLAGS);
  await using worker = await startNode(
    [
      join(root, 'dist', 'workers', 'main.js'),
      '--address',
      server.address,
      '--embedded',
      '--state-dir',
      join(workDir, 'soak-state'),
      '--pieces',
      JSON.stringify(pieces),
    ],
    env.variables,
    /voidbox-worker ready/,
  );
  const samples = await soak({
    address: server.address,
    workerPid: worker.pid,
    serverPid: server.pid,
    spec: noopSpec(2),
    runs: SOAK_RUNS,
    sampleEvery: SOAK_SAMPLE_EVERY,
    onSample({ runs, workerMib, serverMib }) {
      if (runs % SOAK_WINDOW === 0)
        say(`  ${runs} of ${SOAK_RUNS} runs: worker ${format(workerMib)} MiB, server ${format(serverMib)} MiB`);
    },
  });
  const early = around(samples, SOAK_EARLY_RUNS, SOAK_WINDOW);
  const late = around(samples, SOAK_RUNS, SOAK_WINDOW);
  const growth = {
    worker: late.workerMib.median / early.workerMib.median,
    server: late.serverMib.median / early.serverMib.median,
  };
  return {
    title: '(h) Memory over many runs',
    method: `${SOAK_RUNS} runs of two stages on the mock sandbox, eight at a time, on one worker and one server. Resident memory is read every ${SOAK_SAMPLE_EVERY} runs; each figure is over the ${SOAK_WINDOW} runs before it.`,
    rows: [
      { what: `worker after ${SOAK_EARLY_RUNS} runs`, value: early.workerMib, unit: 'MiB' },
      { what: `worker after ${SOAK_RUNS} runs`, value: late.workerMib, unit: 'MiB' },
      { what: `server after ${SOAK_EARLY_RUNS} runs`, value: early.serverMib, unit: 'MiB' },
      { what: `server after ${SOAK_RUNS} runs`, value: late.serverMib, unit: 'MiB' },
    ],
    goals: [
      {
        what: `worker after ${SOAK_RUNS} runs against ${SOAK_EARLY_RUNS}`,
        value: growth.worker,
        goal: '≤ 1.10',
        met: growth.worker <= 1.1,
      },
      {
        what: `server after ${SOAK_RUNS} runs against ${SOAK_EARLY_RUNS}`,
        value: growth.server,
        goal: '≤ 1.10',
        met: growth.server <= 1.1,
      },
    ],
  };
}

async function recoveryFigure(bench: Bench): Promise<Figure> {
  const stateDir = join(bench.workDir, 'recovery-state');
  const env = { ...bench.env.variables, VOIDBOX_STATE_DIR: stateDir, NO_COLOR: '1' };
  const bin = join(bench.root, 'bin', 'voidbox.js');
  try {
    const [result] = await interleave(
      [recoveryArm(bin, stateDir, bench.workDir, (await openStores({ stateDir })).reader, env)],
      bench.rounds,
      bench.say,
    );
    const value = spread(result!.rounds.map((round) => round.secondsToNextLine));
    return {
      title: '(g) Recovery',
      method:
        'From `kill -9` of the worker to the next line of the running stage that readers see; the command runs on in its VM all the while.',
      rows: [{ what: result!.name, value, unit: 's' }],
      goals: [
        {
          what: 'seconds to the next line',
          value: value.median,
          goal: `≤ heartbeat timeout (${HEARTBEAT_TIMEOUT_S}) + 2`,
          met: value.median <= HEARTBEAT_TIMEOUT_S + 2,
        },
      ],
    };
  } finally {
    execFileSync(process.execPath, [bin, 'down'], { env });
  }
}

await main();
