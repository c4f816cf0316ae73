/**
 * `npm run bench:steps [figure …] [--rounds N] [--no-write]`: figures of step machines, printed, and written to
 * docs/reference/benchmarks-steps.md when all were taken.
 */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { readEnvironment } from '../setup/environment.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { resolveStackPieces } from '../setup/resolve.ts';
import { workerArgs } from '../setup/worker-command.ts';
import { type ArmResult, interleave, measurePairedRatio, spread } from './measure.ts';
import type { Figure, FigureRow, Goal } from './report.ts';
import { type Bench, runFigures } from './command/run-figures.ts';
import { startNode, startServer, TUNED_FLAGS } from './servers.ts';
import { nodeArm, nodeWithCertificatesArm, sessionFileArm, startArm, statelessArm } from './step-cli.ts';
import { bareArm, durableArm, type DurableMeasure, measureLongSession, openDurableBench } from './step-durable.ts';
import { startMcp } from './step-mcp.ts';
import { type StepScripts, writeStepScripts } from './step-scripts.ts';
import { type AdvanceMeasure, count, DEPTHS, inProcessArm } from './steps.ts';

/** The longest session may cost this much more for each advance than a shorter one, and still be called flat. */
const FLAT = 1.2;
const LONG_STEPS = 1_000;

interface StepsBench extends Bench {
  readonly scripts: StepScripts;
}

const FIGURES: Readonly<Record<string, (bench: StepsBench) => Promise<Figure>>> = {
  engine: engineFigure,
  mcp: mcpFigure,
  start: startFigure,
  cli: cliFigure,
  durable: durableFigure,
};

async function engineFigure({ rounds, say }: StepsBench): Promise<Figure> {
  const results = await interleave(DEPTHS.map(inProcessArm), rounds, say);
  const longest = median(results.at(-1)!, 'cpuMs');
  return {
    title: 'Engine in process',
    method:
      'The engine runs in this process; the figure is the mean over a whole session of that many steps. CPU counts the whole process, including garbage collection on other threads.',
    rows: results.flatMap((result) => advanceRows(result)),
    goals: [
      createGoal('CPU of an advance at 10,000 steps', longest, 0.05, ' ms'),
      flat(results.at(-1)!, results.at(-2)!, 'cpuMs', 'CPU at 10,000 steps against 1,000'),
    ],
  };
}

async function mcpFigure({ rounds, say, scripts }: StepsBench): Promise<Figure> {
  using mcp = await startMcp(scripts.script);
  const results = await interleave(DEPTHS.map(mcp.arm), rounds, say);
  return {
    title: 'MCP over stdio',
    method:
      'A server of the bundled step machine with sessions in memory; the figure is the mean over whole sessions of that many steps. The client only writes and reads lines, and CPU counts only the server.',
    rows: results.flatMap((result) => advanceRows(result)),
    goals: [
      ...results.map((result) =>
        createGoal(`an advance of a session of ${result.name}`, median(result, 'wallMs'), 1, ' ms'),
      ),
      flat(results.at(-1)!, results.at(-2)!, 'cpuMs', 'CPU at 10,000 steps against 1,000'),
    ],
  };
}

async function startFigure({ rounds, say, scripts: { zod, arktype }, workDir }: StepsBench): Promise<Figure> {
  const skills = [
    startArm('`start` of a step machine with zod', zod),
    startArm('`start` of a step machine with ArkType', arktype),
  ];
  const results = await interleave([...skills, nodeArm(), nodeWithCertificatesArm(workDir)], rounds, say);
  return {
    title: 'Start of a built step machine',
    method:
      '`scripts/run start` of a built step machine, from its start to its end; 3 calls a round. The step machines differ in the library of their one schema. `NODE_EXTRA_CA_CERTS` is not set, as for all command lines here; the last arm shows its cost for each process.',
    rows: results.flatMap((result) => advanceRows(result, 'ms a call')),
    goals: results
      .slice(0, skills.length)
      .map((result) => createGoal(`CPU of ${result.name}`, median(result, 'cpuMs'), 150, ' ms')),
  };
}

async function cliFigure({ rounds, say, scripts: { script }, workDir }: StepsBench): Promise<Figure> {
  const arms = [nodeArm()];
  for (const steps of DEPTHS) {
    say(`  putting a session of ${count(steps)} steps in place`);
    arms.push(await statelessArm(steps, script, workDir), await sessionFileArm(steps, script, workDir));
  }
  const measured = arms.length;
  arms.push(await statelessArm(DEPTHS.at(-1)!, script, workDir, false));
  const results = await interleave(arms, rounds, say);
  return {
    title: 'Command line',
    method:
      'Each advance is one process of the bundled step machine, measured from its start to its end. First the same code, in one process, prepares a session file or a history of that many steps; then each round measures 3 advances at that depth. Without a session, the client passes the whole history with each call and appends what the call returns. The client of the last arm, which has no goal, drops the checkpoints in the history, so each call folds all events again.',
    rows: results.flatMap((result) => advanceRows(result)),
    goals: [
      ...results
        .slice(1, measured)
        .map((result) => createGoal(`CPU of an advance, ${result.name}`, median(result, 'cpuMs'), 150, ' ms')),
      flat(results[measured - 1]!, results[2]!, 'cpuMs', 'CPU with a session file of 10,000 steps against one of 10'),
      flat(results[measured - 2]!, results[1]!, 'cpuMs', 'CPU without a session after 10,000 steps against after 10'),
    ],
  };
}

async function durableFigure({ rounds, say, scripts: { entry }, workDir }: StepsBench): Promise<Figure> {
  const env = readEnvironment();
  const pieces = await resolveStackPieces(env, { install: true, onProgress: say });
  const dist = join(findPackageRoot(), 'dist');
  const stateDir = join(workDir, 'state');
  await using server = await startServer(pieces.temporalCli, join(workDir, 'temporal.db'), TUNED_FLAGS);
  const where = [
    '--embedded',
    '--address',
    server.address,
    '--state-dir',
    stateDir,
    '--keeper',
    pieces.keeper,
    '--skills',
    entry,
  ];
  await using worker = await startNode([...workerArgs(), ...where], env.variables, /voidbox-worker ready/);
  await using bareWorker = await startNode(
    [join(dist, 'bench/bare-worker.js'), server.address, join(dist, 'bench/bare-workflow.js')],
    env.variables,
    /ready/,
  );
  const bench = await openDurableBench(server.address, worker.pid, stateDir);
  const arms = [await bareArm(bench.client, bareWorker.pid)];
  for (const steps of DEPTHS) arms.push(await durableArm(bench, steps));
  const [bare, ...durable] = await interleave(arms, rounds, say);
  const long = await measureLongSession(bench, LONG_STEPS);
  await bench.client.connection.close();
  return {
    title: 'Durable session',
    method: `Server and worker are the embedded stack's (${version(pieces.temporalCli)}); the step machine runs in a separate process. A round makes 25 advances with the client that \`voidbox session\` and the other transports use, and as many bare updates with one no-op local activity, on the same server with a separate worker. CPU counts the worker and the step machine's process. A session of that many steps starts with the input of continue-as-new: the engine's state after that many answers, and its records in files. Continue-as-new is due after about 680 answers; one session with ${count(LONG_STEPS)} consecutive answers shows its cost.`,
    rows: [
      ...[bare!, ...durable].flatMap((result) => [
        ...advanceRows(result),
        { what: `${result.name}: history`, value: spread(values(result, 'events')), unit: 'events an advance' },
        { what: `${result.name}: history`, value: spread(values(result, 'bytes')), unit: 'bytes an advance' },
      ]),
      {
        what: `durable, a session of ${count(LONG_STEPS)} steps as a whole: wall`,
        value: spread([long.wallMs]),
        unit: 'ms an advance',
      },
      {
        what: `durable, a session of ${count(LONG_STEPS)} steps as a whole: CPU`,
        value: spread([long.cpuMs]),
        unit: 'ms an advance',
      },
    ],
    goals: [
      ...durable.map((result) =>
        createGoal(
          `wall time against the bare update, paired, ${result.name.slice('durable, '.length)}`,
          measurePairedRatio(result, bare!, 'wallMs').median,
          2,
          '',
        ),
      ),
      flat(durable.at(-1)!, durable[0]!, 'wallMs', 'an advance after 10,000 steps against one after 10'),
    ],
  };
}

function version(program: string): string {
  return execFileSync(program, ['--version'], { encoding: 'utf8' }).split('\n')[0]!.trim();
}

function values<T extends string>({ rounds }: ArmResult<T>, measure: T): number[] {
  return rounds.map((round) => round[measure]);
}

function median<T extends string>(result: ArmResult<T>, measure: T): number {
  return spread(values(result, measure)).median;
}

function advanceRows(
  result: ArmResult<AdvanceMeasure> | ArmResult<DurableMeasure>,
  unit = 'ms an advance',
): FigureRow[] {
  const { name } = result;
  return [
    { what: `${name}: wall`, value: spread(result.rounds.map(({ wallMs }) => wallMs)), unit },
    { what: `${name}: CPU`, value: spread(result.rounds.map(({ cpuMs }) => cpuMs)), unit },
  ];
}

function createGoal(what: string, value: number, limit: number, unit: string): Goal {
  return { what, value, goal: `≤ ${limit}${unit}`, met: value <= limit };
}

function flat<T extends string>(long: ArmResult<T>, short: ArmResult<T>, measure: T, what: string): Goal {
  return createGoal(`${what}, paired`, measurePairedRatio(long, short, measure).median, FLAT, '');
}

await runFigures({
  command: 'bench:steps',
  title: 'Benchmarks of step machines',
  page: 'benchmarks-steps.md',
  figures: FIGURES,
  describeFacts: (rounds) => [
    'A step that loops, an answer of about 60 bytes checked by zod and merged into a sub-store.',
    `Lane: command lines and servers as child processes on this machine, no virtual machine involved; ${rounds} rounds.`,
  ],
  prepare: async (bench) => ({ ...bench, scripts: await writeStepScripts(bench.workDir) }),
});
